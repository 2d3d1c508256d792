package agent

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/testsuite"

	"github.com/sluiceml/sluice/internal/artifact"
	"github.com/sluiceml/sluice/store"
	"github.com/sluiceml/sluice/store/record"
	"github.com/sluiceml/sluice/training"
	"github.com/sluiceml/sluice/training/checkpoint"
	"github.com/sluiceml/sluice/training/protocol"
)

// crashing saves a checkpoint, changes a file of the workspace, and crashes once the checkpoint has been committed.
const crashing = `
mkdir "$SLUICE_CHECKPOINT_DIR/.new"
cat data lib > "$SLUICE_CHECKPOINT_DIR/.new/weights"
mv "$SLUICE_CHECKPOINT_DIR/.new" "$SLUICE_CHECKPOINT_DIR/step-7"
echo '{"step": 7}' >> "$SLUICE_METRICS"
echo changed >> lib
kill -9 $$
`

// again is a node whose ranks ran once, and what they left in the store.
func again(t *testing.T) (*node, record.StepInput, func(checkpoint.Seal) (protocol.PrepareOutput, error)) {
	t.Helper()
	n, in := secretive(t, nil)
	plain := n.store
	n.store = plain.Near(&n.near)
	workspace := t.TempDir()
	for name, text := range map[string]string{"data": "data", "lib": "lib"} {
		if err := os.WriteFile(filepath.Join(workspace, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var err error
	if in.Workspace, err = plain.PutTree(t.Context(), artifact.Workspace, workspace, nil, nil); err != nil {
		t.Fatal(err)
	}
	in.Spec = []byte(`{"command": ["sh", "-c", ` + quoted(crashing) + `]}`)
	prepare := func(seal checkpoint.Seal) (out protocol.PrepareOutput, err error) {
		env := (&testsuite.WorkflowTestSuite{}).NewTestActivityEnvironment()
		env.RegisterActivityWithOptions(n.Prepare, activity.RegisterOptions{Name: protocol.PrepareActivity})
		value, err := env.ExecuteActivity(protocol.PrepareActivity, protocol.PrepareInput{Protocol: protocol.AgentProtocol, Step: in, Seal: seal})
		if err != nil {
			return out, err
		}
		return out, value.Get(&out)
	}
	if _, err := prepare(sealOf(t, n, in, 1)); err != nil {
		t.Fatal(err)
	}
	r, err := n.launch(protocol.RunRanksInput{Protocol: protocol.AgentProtocol, Generation: 1, Nodes: 1, MasterAddress: "127.0.0.1"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.kill(); <-r.done })
	select {
	case <-r.done:
	case <-time.After(time.Minute):
		t.Fatal("the rank does not end")
	}
	if r.ended.Signal != 9 || r.ended.CommittedStep != 7 {
		t.Fatalf("the rank ended as %+v, want a crash after a commit", r.ended)
	}
	return n, in, prepare
}

// kill ends the ranks at once.
func (r *ranks) kill() { r.stop(context.Background(), 0) }

func quoted(text string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`).Replace(text) + `"`
}

// wantFile checks a file of the generation that the node is prepared for.
func (n *node) wantFile(t *testing.T, path, want string) {
	t.Helper()
	if got, err := os.ReadFile(filepath.Join(n.prepared.dirs.root, path)); err != nil || string(got) != want {
		t.Errorf("%s holds %q, %v, want %q", path, got, err, want)
	}
}

// TestPrepareAgain: a node that has served a generation takes from it what the next one needs, also the checkpoint that it committed. What
// the ranks have changed it fetches, and the old folder goes.
func TestPrepareAgain(t *testing.T) {
	n, in, prepare := again(t)
	first := n.prepared.dirs.root
	seal := sealOf(t, n, in, 2)
	remove(t, n.store, "data")
	remove(t, checkpoint.Part(n.store, keyOf(in, 1), 7), "datalib")
	out, err := prepare(seal)
	if err != nil || out.Unusable != "" || out.MasterPort == 0 {
		t.Fatalf("it is not prepared again: %+v, %v", out, err)
	}
	n.wantFile(t, "work/data", "data")
	n.wantFile(t, "work/lib", "lib")
	n.wantFile(t, "resume/weights", "datalib")
	if _, err := os.Stat(first); !os.IsNotExist(err) {
		t.Errorf("the folder of the first generation is left: %v", err)
	}
	if _, err := n.launch(protocol.RunRanksInput{Protocol: protocol.AgentProtocol, Generation: 1, Nodes: 1}); err == nil {
		t.Error("the first generation was started again")
	}
	r, err := n.launch(protocol.RunRanksInput{Protocol: protocol.AgentProtocol, Generation: 2, Nodes: 1, MasterAddress: "127.0.0.1"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.kill(); <-r.done })
}

// TestPrepareVerifiesItsOwnCheckpoint: a checkpoint that was changed on the node after its commit is not the one that the seal names.
func TestPrepareVerifiesItsOwnCheckpoint(t *testing.T) {
	n, in, prepare := again(t)
	seal := sealOf(t, n, in, 2)
	if err := os.WriteFile(filepath.Join(n.prepared.dirs.checkpoints, "step-7", "weights"), []byte("others"), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := prepare(seal); err != nil || out.Unusable != "" {
		t.Fatalf("it is not prepared again: %+v, %v", out, err)
	}
	n.wantFile(t, "resume/weights", "datalib")
	remove(t, checkpoint.Part(n.store, keyOf(in, 1), 7), "datalib")
	if err := os.WriteFile(filepath.Join(n.prepared.dirs.resume, "weights"), []byte("others"), 0o600); err != nil {
		t.Fatal(err)
	}
	seal.Generation = 3
	if out, err := prepare(seal); err != nil || out.Unusable == "" {
		t.Errorf("a checkpoint that is neither in the store nor on the node can be used: %+v, %v", out, err)
	}
}

// TestPrepareWaitsForTheEnd: a node whose ranks run is not prepared for others.
func TestPrepareWaitsForTheEnd(t *testing.T) {
	n := &node{ranks: &ranks{key: training.Key{Generation: 1}, done: make(chan struct{})}}
	if err := n.isFree(); err == nil || !strings.Contains(err.Error(), "ranks of generation 1 still run") {
		t.Errorf("a node whose ranks run is free: %v", err)
	}
	close(n.ranks.done)
	if err := n.isFree(); err != nil {
		t.Error(err)
	}
}

func sealOf(t *testing.T, n *node, in record.StepInput, generation int) checkpoint.Seal {
	t.Helper()
	seal, err := checkpoint.MakeSeal(t.Context(), n.store, keyOf(in, generation), checkpoint.Origin{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return seal
}

// remove removes a blob from a store.
func remove(t *testing.T, s *store.Store, content string) {
	t.Helper()
	digest, _, err := s.PutBlob(t.Context(), strings.NewReader(content))
	if err != nil {
		t.Fatal(err)
	}
	sum := strings.TrimPrefix(digest, "sha256:")
	if err := s.Driver().Delete(t.Context(), "blobs/"+sum[:2]+"/"+sum); err != nil {
		t.Fatal(err)
	}
}
