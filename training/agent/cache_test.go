package agent

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/testsuite"

	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/artifact"
	"github.com/sluiceml/sluice/internal/secret"
	"github.com/sluiceml/sluice/store"
	"github.com/sluiceml/sluice/store/record"
	"github.com/sluiceml/sluice/training/checkpoint"
	"github.com/sluiceml/sluice/training/protocol"
)

// blobReads counts how often blobs of a store are read.
type blobReads struct {
	store.Driver
	n *atomic.Int64
}

func (b blobReads) Read(ctx context.Context, key string) (io.ReadCloser, error) {
	if strings.HasPrefix(key, "blobs/") {
		b.n.Add(1)
	}
	return b.Driver.Read(ctx, key)
}

// machine has agents that share a file cache.
type machine struct {
	t     *testing.T
	in    record.StepInput
	dir   string // of the cache
	store *store.Store
	read  atomic.Int64
	said  bytes.Buffer // what all agents say
	log   *slog.Logger
}

// newMachine is a machine for a workspace of two files.
func newMachine(t *testing.T) *machine {
	t.Helper()
	n, in := secretive(t, nil)
	m := &machine{t: t, in: in, dir: filepath.Join(t.TempDir(), "cache")}
	m.log = slog.New(slog.NewTextHandler(&m.said, nil))
	m.store = store.New(blobReads{n.store.Driver(), &m.read}, n.store.URL())
	workspace := t.TempDir()
	for name, text := range map[string]string{"data": "data", "lib": "lib"} {
		if err := os.WriteFile(filepath.Join(workspace, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var err error
	if m.in.Workspace, err = n.store.PutTree(t.Context(), artifact.Workspace, workspace, nil, nil); err != nil {
		t.Fatal(err)
	}
	m.in.Spec = []byte(`{"command": ["sh", "-c", "printf X | dd of=lib conv=notrunc 2>/dev/null; exit 3"]}`)
	return m
}

// agent starts an agent for a step of a run.
func (m *machine) agent(run, step string) (*node, record.StepInput) {
	m.t.Helper()
	in, dir := m.in, m.t.TempDir()
	in.Run, in.Step = run, step
	n := &node{
		config: protocol.AgentConfig{
			Dir: dir, LogDir: filepath.Join(dir, "logs"), Host: "127.0.0.1", Cache: m.dir, CacheLimit: 1 << 20,
		},
		log: m.log, resolver: secret.NewResolver(), stallFloor: stallFloor,
	}
	n.near.Cache = n.openCache()
	n.store = m.store.Near(&n.near)
	if err := checkpoint.PutEnvironment(m.t.Context(), m.store, keyOf(in, 1), &spec.Environment{Name: "test"}); err != nil {
		m.t.Fatal(err)
	}
	return n, in
}

// prepare prepares a node for the first generation.
func (n *node) prepare(t *testing.T, in record.StepInput) error {
	env := (&testsuite.WorkflowTestSuite{}).NewTestActivityEnvironment()
	env.RegisterActivityWithOptions(n.Prepare, activity.RegisterOptions{Name: protocol.PrepareActivity})
	_, err := env.ExecuteActivity(protocol.PrepareActivity, protocol.PrepareInput{
		Protocol: protocol.AgentProtocol, Step: in, Seal: sealOf(t, n, in, 1),
	})
	return err
}

// train prepares a node and runs its rank, which overwrites a file in place.
func (m *machine) train(run, step string) {
	m.t.Helper()
	n, in := m.agent(run, step)
	if err := n.prepare(m.t, in); err != nil {
		m.t.Fatal(err)
	}
	n.wantFile(m.t, "work/data", "data")
	n.wantFile(m.t, "work/lib", "lib")
	r, err := n.launch(protocol.RunRanksInput{Protocol: protocol.AgentProtocol, Generation: 1, Nodes: 1, MasterAddress: "127.0.0.1"})
	if err != nil {
		m.t.Fatal(err)
	}
	m.t.Cleanup(func() { r.kill(); <-r.done })
	select {
	case <-r.done:
	case <-time.After(time.Minute):
		m.t.Fatal("the rank does not end")
	}
	n.wantFile(m.t, "work/lib", "Xib")
}

// TestFileCache: what one agent has fetched, the agents of other steps and runs do not fetch again, whatever its ranks do to it. What is
// damaged on the machine is fetched again.
func TestFileCache(t *testing.T) {
	m := newMachine(t)
	for i, training := range []struct {
		run, step string
		reads     int64
		says      string
	}{
		{"r1", "fit", 3, "bytes_cached=0 "}, // the list of files, and two
		{"r1", "tune", 0, "bytes_fetched=0"},
		{"r2", "fit", 0, "bytes_fetched=0"},
		{"r3", "fit", 1, "bytes_fetched=4"}, // "data" was damaged
	} {
		if i == 3 {
			m.damage("data")
		}
		m.read.Store(0)
		m.said.Reset()
		m.train(training.run, training.step)
		if n := m.read.Load(); n != training.reads {
			t.Errorf("%s/%s read %d blobs, want %d", training.run, training.step, n, training.reads)
		}
		if !strings.Contains(m.said.String(), training.says) {
			t.Errorf("%s/%s says %q, want %s", training.run, training.step, &m.said, training.says)
		}
	}
}

// damage changes a file of the cache.
func (m *machine) damage(content string) {
	m.t.Helper()
	digest, _, err := m.store.PutBlob(m.t.Context(), strings.NewReader(content))
	if err != nil {
		m.t.Fatal(err)
	}
	path := filepath.Join(m.dir, strconv.Itoa(os.Geteuid()), strings.TrimPrefix(digest, "sha256:"))
	if err := os.Chmod(path, 0o600); err != nil {
		m.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(strings.ToUpper(content)), 0o600); err != nil {
		m.t.Fatal(err)
	}
}

// TestFileCacheOfAGang: of nodes that begin at the same time one fetches each file.
func TestFileCacheOfAGang(t *testing.T) {
	m := newMachine(t)
	var all sync.WaitGroup
	for _, run := range []string{"r1", "r2", "r3"} {
		n, in := m.agent(run, "fit")
		all.Go(func() {
			if err := n.prepare(t, in); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if n := m.read.Load(); n != 3 {
		t.Errorf("blobs were read %d times, want 3", n)
	}
}

// TestNoFileCache: an agent that cannot use the folder fetches everything, and says why.
func TestNoFileCache(t *testing.T) {
	m := newMachine(t)
	if err := os.MkdirAll(filepath.Join(m.dir, strconv.Itoa(os.Geteuid())), 0o755); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		m.read.Store(0)
		m.said.Reset()
		m.train("r", "s")
		if n := m.read.Load(); n != 3 || !strings.Contains(m.said.String(), "mode 0700") {
			t.Errorf("%d blobs were read, want 3; it says %q, want why", n, &m.said)
		}
	}
}
