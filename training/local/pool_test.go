package local

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/training"
	"github.com/sluiceml/sluice/training/gpu/gputest"
	"github.com/sluiceml/sluice/training/gpu/nvml"
	"github.com/sluiceml/sluice/training/pooltest"
	"github.com/sluiceml/sluice/training/protocol"
)

// agentVariable makes this test's own executable play the agent: it says that training is under way, and waits.
const agentVariable = "SLUICE_NODE_DIR"

func TestMain(m *testing.M) {
	if gputest.Plays() {
		os.Exit(gputest.Main(nvml.Main))
	}
	if dir := os.Getenv(agentVariable); dir != "" {
		if err := os.WriteFile(filepath.Join(dir, protocol.TrainingFile), []byte("40"), 0o600); err != nil {
			os.Exit(1)
		}
		select {}
	}
	goleak.VerifyTestMain(m)
}

func newPool(t *testing.T, nodes int, in *spec.Interruptions) *Pool {
	t.Helper()
	dir := t.TempDir()
	p := New(Options{
		Dir: filepath.Join(dir, "pool"), Nodes: nodes, Interruptions: in, AgentPath: os.Args[0],
		Agent: protocol.AgentConfig{LogDir: filepath.Join(dir, "logs")},
		Token: func(string, string) string { return "" },
	})
	t.Cleanup(p.Close)
	return p
}

func TestPool(t *testing.T) {
	pooltest.Run(t, func(t *testing.T) pooltest.Harness {
		p := newPool(t, 3, nil)
		return pooltest.Harness{
			Nodes: 3, Pool: p,
			Reopen: func() training.Pool { return New(p.opts) },
			Kill: func(t *testing.T, key training.Key, node int) {
				r, err := readRecord(p.dir(key))
				if err != nil {
					t.Fatal(err)
				}
				if err := syscall.Kill(r.Processes[node].PID, syscall.SIGKILL); err != nil {
					t.Fatal(err)
				}
			},
			Alive: func(t *testing.T, key training.Key) int { return alive(t, p.dir(key)) },
		}
	})
}

// alive counts the processes that have a folder under dir as their own.
func alive(t *testing.T, dir string) int {
	t.Helper()
	paths, err := filepath.Glob("/proc/[0-9]*/environ")
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, path := range paths {
		environ, err := os.ReadFile(path)
		if err == nil && strings.Contains(string(environ), agentVariable+"="+dir+"/") {
			n++
		}
	}
	return n
}

func request(generation int) training.Request {
	return training.Request{Key: training.Key{Run: "r1", Step: "fit", Generation: generation}, MinNodes: 2, MaxNodes: 2, Workflow: "w"}
}

func TestInterruptionWithNotice(t *testing.T) {
	p := newPool(t, 2, &spec.Interruptions{MeanUp: spec.Duration(100 * time.Millisecond), Notice: spec.Duration(200 * time.Millisecond)})
	gang, err := p.Acquire(t.Context(), request(1))
	if err != nil {
		t.Fatal(err)
	}
	loss, err := p.Watch(t.Context(), request(1).Key, nil)
	if err != nil {
		t.Fatal(err)
	}
	if len(loss.Nodes) != 1 || !strings.Contains(loss.Reason, "after its notice") {
		t.Fatalf("loss %+v, want one node, after its notice", loss)
	}
	raw, err := os.ReadFile(filepath.Join(p.dir(request(1).Key), "node"+string(rune('0'+loss.Nodes[0])), protocol.NoticeFile))
	if err != nil {
		t.Fatal(err)
	}
	var notice protocol.NodeNotice
	if err := json.Unmarshal(raw, &notice); err != nil {
		t.Fatal(err)
	}
	if late := time.Since(notice.Until); late < 0 || late > 5*time.Second {
		t.Errorf("node %s was taken %v after the end of its notice", gang.Nodes[loss.Nodes[0]].Name, late)
	}
}

func TestInterruptionWithoutNotice(t *testing.T) {
	p := newPool(t, 2, &spec.Interruptions{MeanUp: spec.Duration(50 * time.Millisecond), Notice: spec.Duration(time.Hour), WithoutNotice: 1})
	if _, err := p.Acquire(t.Context(), request(1)); err != nil {
		t.Fatal(err)
	}
	loss, err := p.Watch(t.Context(), request(1).Key, nil)
	if err != nil || len(loss.Nodes) != 1 || !strings.Contains(loss.Reason, "without notice") {
		t.Errorf("loss %+v, %v, want one node, without notice", loss, err)
	}
}

// TestInterruptionAfterSteps: an interruption that is counted in steps comes when the gang has made them, however long that takes.
func TestInterruptionAfterSteps(t *testing.T) {
	p := newPool(t, 2, &spec.Interruptions{MeanSteps: 100, Notice: spec.Duration(time.Hour), WithoutNotice: 1})
	if _, err := p.Acquire(t.Context(), request(1)); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(p.dir(request(1).Key), "node0")
	for { // the test's agent says 40 when it has started
		if text, err := os.ReadFile(filepath.Join(dir, protocol.TrainingFile)); err == nil && len(text) > 0 {
			break
		}
		select {
		case <-t.Context().Done():
			t.Fatal("the agent does not start")
		case <-time.After(pollEvery / 10):
		}
	}
	early, cancel := context.WithTimeout(t.Context(), 3*pollEvery)
	defer cancel()
	if loss, err := p.Watch(early, request(1).Key, nil); err == nil {
		t.Fatalf("after 40 steps of 75 at least: %+v", loss)
	}
	if err := os.WriteFile(filepath.Join(dir, protocol.TrainingFile), []byte("130"), 0o600); err != nil {
		t.Fatal(err)
	}
	if loss, err := p.Watch(t.Context(), request(1).Key, nil); err != nil || len(loss.Nodes) != 1 {
		t.Errorf("loss %+v, %v, want one node", loss, err)
	}
}

func TestReleaseEndsAPendingInterruption(t *testing.T) {
	p := newPool(t, 2, &spec.Interruptions{MeanUp: spec.Duration(time.Hour), Notice: spec.Duration(time.Second)})
	if _, err := p.Acquire(t.Context(), request(1)); err != nil {
		t.Fatal(err)
	}
	if _, err := p.Release(t.Context(), request(1).Key); err != nil {
		t.Fatal(err)
	}
}

// The times keep within a quarter of the mean, and the share without notice is right to within one at every point.
func TestInterruptionsAreStratified(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := spec.Interruptions{
			MeanUp: spec.Duration(rapid.Int64Range(1, int64(time.Hour)).Draw(t, "mean")), Notice: spec.Duration(time.Second),
			WithoutNotice: spec.Share(rapid.Float64Range(0, 1).Draw(t, "share")),
		}
		nodes := rapid.IntRange(1, 8).Draw(t, "nodes")
		run := rapid.StringMatching(`[a-z0-9]{1,8}`).Draw(t, "run")
		without := 0
		for g := 1; g <= 40; g++ {
			k := training.Key{Run: run, Step: "fit", Generation: g}
			i := interruptionOf(in, k, nodes)
			if i != interruptionOf(in, k, nodes) {
				t.Fatal("it differs from one time to the next")
			}
			if i.node < 0 || i.node >= nodes {
				t.Fatalf("node %d of %d", i.node, nodes)
			}
			if mean := float64(in.MeanUp); float64(i.after) < 0.75*mean-1 || float64(i.after) > 1.25*mean {
				t.Fatalf("after %v, the mean is %v", i.after, time.Duration(in.MeanUp))
			}
			if i.notice == 0 {
				without++
			}
			if want := float64(g) * float64(in.WithoutNotice); float64(without) < want-1 || float64(without) > want+1e-6 {
				t.Fatalf("%d of the first %d without notice, the share is %v", without, g, in.WithoutNotice)
			}
		}
	})
}

// TestSeen: what died with the process that started it is paid for until it was seen last, by whoever finds the record.
func TestSeen(t *testing.T) {
	p := newPool(t, 2, nil)
	var seen []time.Time
	for generation := range 2 {
		gang, err := p.Acquire(t.Context(), training.Request{Key: request(generation).Key, MinNodes: 1, MaxNodes: 1, Workflow: "w"})
		if err != nil {
			t.Fatal(err)
		}
		at := gang.Nodes[0].BeganAt.Add(time.Duration(generation+1) * time.Hour).Truncate(time.Second)
		seen = append(seen, at)
	}
	began := time.Now()
	p.Close()
	for generation, at := range seen {
		r, err := readRecord(p.dir(request(generation).Key))
		if err != nil || r.SeenAt.Before(began.Add(-time.Second)) {
			t.Fatalf("it was seen at %v, before %v; %v", r.SeenAt, began, err)
		}
		if err := r.see(at); err != nil {
			t.Fatal(err)
		}
	}
	next := New(p.opts)
	t.Cleanup(next.Close)
	again, err := next.Acquire(t.Context(), request(0))
	if err != nil {
		t.Fatal(err)
	}
	released, err := next.Release(t.Context(), request(1).Key)
	if err != nil {
		t.Fatal(err)
	}
	var got []time.Time
	for _, gang := range append(again.Ended, released...) {
		got = append(got, gang.Nodes[0].EndedAt)
	}
	if diff := cmp.Diff(seen, got); diff != "" {
		t.Errorf("the ends of nodes (-want +got):\n%s", diff)
	}
}

func TestAgentThatCannotStart(t *testing.T) {
	p := newPool(t, 2, nil)
	p.opts.AgentPath = filepath.Join(t.TempDir(), "missing")
	_, err := p.Acquire(t.Context(), request(1))
	if !errors.Is(err, training.ErrNoAgent) || !strings.Contains(err.Error(), p.opts.AgentPath) {
		t.Errorf("Acquire without an agent: %v, want an error that names it", err)
	}
}

func TestIdentity(t *testing.T) {
	self := identify(os.Getpid())
	if !self.alive() {
		t.Errorf("this process is not alive: %+v", self)
	}
	other := process{PID: self.PID, Started: "1"}
	if other.alive() {
		t.Error("another process with the same ID is taken for this one")
	}
}
