package integration

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/training"
	"github.com/sluiceml/sluice/training/protocol"
)

// frameworksVariable, in the environment, makes TestFrameworks run: `make test-frameworks`, which provides the Python environment with the
// frameworks.
const frameworksVariable = "SLUICE_TEST_FRAMEWORKS"

// framework is a training script of docs/frameworks.md.
type framework struct {
	script string // a path from the folder integration
	train  string // keys of the train step, as YAML
	rank   int    // the rank that is killed
	steps  int64
}

// TestFrameworks trains with current releases of the frameworks: once undisturbed, and once while a rank is killed and, after that, a node gets
// a notice. Both make the same model, bit by bit.
func TestFrameworks(t *testing.T) {
	if os.Getenv(frameworksVariable) == "" {
		t.Skipf("%s is not set: run `make test-frameworks`", frameworksVariable)
	}
	for name, f := range map[string]framework{
		"DDP":          {"../examples/ddp/train.py", "nodes: 2, outputs: {model: {type: model, path: model.pt}}", 1, 300},
		"FSDP":         {"testdata/frameworks/fsdp.py", "nodes: 2, checkpoint: {layout: sharded}, outputs: {model: {type: model, path: model.pt}}", 1, 200},
		"Hugging Face": {"testdata/frameworks/huggingface.py", "nodes: 2, checkpoint: {layout: huggingface}, outputs: {model: {type: model, path: model}}", 1, 200},
		"Lightning":    {"testdata/frameworks/lightning_fit.py", "nodes: 2, checkpoint: {layout: lightning}, outputs: {model: {type: model, path: model.pt}}", 0, 200},
	} {
		t.Run(name, func(t *testing.T) { f.test(t) })
	}
}

func (f framework) test(t *testing.T) {
	s := copyProject(t, "testdata/frameworks")
	source, err := os.ReadFile(f.script)
	if err != nil {
		t.Fatal(err)
	}
	script := filepath.Base(f.script)
	write(t, filepath.Join(s.project, script), string(source))
	write(t, filepath.Join(s.project, "pipeline.yaml"), fmt.Sprintf(`sluice: pipeline/v1
name: framework
steps:
  fit:
    cache: false
    train: {command: [python3, %s], metrics: [loss], %s}
    retry: {attempts: 2}
`, script, f.train))

	undisturbed := s.run()
	want := s.trained(undisturbed)

	run := s.run()
	id := run.runID()
	s.awaitCommit(run, id, 1)
	kill(t, s.rankOf("python3 "+script, f.rank), syscall.SIGKILL)
	s.awaitCommit(run, id, 2)
	gang := training.Key{Run: id, Step: "fit", Generation: 1} // generation 2 is on the same nodes
	notice := filepath.Join(s.state, "pools", "local", gang.String(), "node0", protocol.NoticeFile)
	if err := protocol.WriteFile(notice, protocol.NodeNotice{Until: time.Now().Add(30 * time.Second)}); err != nil {
		t.Fatal(err)
	}
	got := s.trained(run)

	var ends []spec.GenerationEnd
	for _, g := range got.Generations {
		ends = append(ends, g.End)
	}
	if fmt.Sprint(ends) != fmt.Sprint([]spec.GenerationEnd{spec.EndCrashed, spec.EndNotice, spec.EndFinished}) {
		t.Errorf("the generations ended as %v", ends)
	}
	if got.Steps != f.steps || want.Steps != f.steps {
		t.Errorf("%d steps are counted, and %d of the undisturbed training; want %d", got.Steps, want.Steps, f.steps)
	}
	if got.Metrics["loss"] != want.Metrics["loss"] || got.Metrics["loss"] == 0 {
		t.Errorf("the loss is %v, and %v of the undisturbed training", got.Metrics["loss"], want.Metrics["loss"])
	}
	if got.Model.Digest != want.Model.Digest {
		t.Error("the model is not that of the undisturbed training")
	}
}

// awaitCommit waits for a checkpoint that a generation of a run has committed.
func (s *sandbox) awaitCommit(run *command, id string, generation int) {
	s.t.Helper()
	pattern := filepath.Join(s.state, "store", "checkpoints", id, "fit", "g"+strconv.Itoa(generation), "step-*.json")
	run.await(fmt.Sprintf("a checkpoint of generation %d", generation), func() bool {
		found, err := filepath.Glob(pattern)
		return err == nil && len(found) > 0
	})
}
