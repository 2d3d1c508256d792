package integration

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.temporal.io/sdk/client"

	"github.com/sluiceml/sluice/activities/contract"
	"github.com/sluiceml/sluice/connect/embedded"
	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/artifact"
	"github.com/sluiceml/sluice/internal/testing/historytest"
	"github.com/sluiceml/sluice/store"
	"github.com/sluiceml/sluice/store/record"
	"github.com/sluiceml/sluice/training"
	"github.com/sluiceml/sluice/training/checkpoint"
	"github.com/sluiceml/sluice/training/gpu/gputest"
)

// trainBench is one engine in a process of its own, with a training to run on it.
type trainBench struct {
	site
	config engineConfig
	engine *exec.Cmd
	client client.Client
	env    map[string]string
	in     contract.TrainInput
}

// newTrainBench starts an engine. The training takes the steps at the pace that env says, on a pool with these interruptions.
func newTrainBench(t *testing.T, interruptions string, config engineConfig) *trainBench {
	t.Helper()
	t.Parallel() // most of a training's time is waiting
	dir := t.TempDir()
	b := &trainBench{site: site{t: t, dir: dir, state: dir}, config: config}
	b.config.AgentPath = agentPath
	raw, err := json.Marshal(b.config)
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(b.dir, "engine.json"), string(raw))
	b.env = map[string]string{"STEPS": "100", "STEP_SECONDS": "0.02", "COMMIT_STEPS": "10", "TRACE": filepath.Join(b.dir, "trace")}
	b.submit(interruptions)
	b.start()
	t.Cleanup(func() {
		// The hard way: whatever the engine had running must go with it.
		b.stop(syscall.SIGKILL)
		b.nothingLeft()
		if t.Failed() {
			b.showLogs()
		}
	})
	return b
}

// submit stores what a run would have stored before its train step.
func (b *trainBench) submit(interruptions string) {
	b.t.Helper()
	ctx := b.t.Context()
	s, err := store.Open(ctx, storeURL(b.dir))
	if err != nil {
		b.t.Fatal(err)
	}
	work := b.t.TempDir()
	script, err := os.ReadFile("testdata/trainer.py")
	if err != nil {
		b.t.Fatal(err)
	}
	write(b.t, filepath.Join(work, "trainer.py"), string(script))
	workspace, err := s.PutTree(ctx, artifact.Workspace, work, nil, nil)
	if err != nil {
		b.t.Fatal(err)
	}
	submission, err := json.Marshal(record.Submission{
		File: "p.yaml", EnvFile: "e.yaml", Workspace: workspace,
		Pipeline: []byte("sluice: pipeline/v1\nname: t\nsteps:\n  fit:\n    train:\n      command: [python3, trainer.py]\n" +
			"      metrics: [f1]\n      nodes: 2\n      pool: local\n      outputs: {model: {type: model, path: model}}\n"),
		Environment: []byte("sluice: environment/v1\nname: t\npools:\n  local: {local: {nodes: 4" + interruptions + "}}\n"),
	})
	if err != nil {
		b.t.Fatal(err)
	}
	digest, _, err := s.PutBlob(ctx, bytes.NewReader(submission))
	if err != nil {
		b.t.Fatal(err)
	}
	sp, err := json.Marshal(spec.Train{
		Command: spec.Command{
			Command: []string{"python3", "trainer.py"},
			Outputs: map[string]spec.OutputDecl{"model": {Type: "model", Path: "model"}},
		},
		Metrics: []string{"f1"}, Nodes: spec.Nodes{Min: 2, Max: 2}, Placement: spec.Placement{Pool: []string{"local"}},
	})
	if err != nil {
		b.t.Fatal(err)
	}
	b.in = contract.TrainInput{StepInput: record.StepInput{
		Run: "r1", Step: "fit", Kind: spec.KindTrain, Spec: sp, Env: b.env, Workspace: workspace, Submission: digest,
	}, Retry: spec.Retry{}.WithDefaults()}
}

// record writes the history of the training that has ended, for the replay tests, when the tests are called with -record.
func (b *trainBench) record(name string) {
	b.t.Helper()
	historytest.Record(b.t, b.client, contract.TrainWorkflowID(b.in.Run, b.in.Step), "train-"+name)
}

// start starts the engine's process and connects to it.
func (b *trainBench) start() {
	b.t.Helper()
	log, err := os.OpenFile(filepath.Join(b.dir, "engine.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		b.t.Fatal(err)
	}
	defer log.Close()
	b.engine = exec.Command(os.Args[0])
	b.engine.Env = append(os.Environ(), engineVariable+"="+b.dir, gputest.Variable+"="+b.config.GPUs)
	b.engine.Stdout, b.engine.Stderr = log, log
	if err := b.engine.Start(); err != nil {
		b.t.Fatal(err)
	}
	address := filepath.Join(b.dir, addressFile)
	b.await("the engine to start", func() bool {
		_, err := os.Stat(address)
		return err == nil
	})
	raw, err := os.ReadFile(address)
	if err != nil {
		b.t.Fatal(err)
	}
	token, err := embedded.ReadToken(filepath.Join(b.dir, embedded.TokenFile))
	if err != nil {
		b.t.Fatal(err)
	}
	if b.client, err = dialEngine(string(raw), token); err != nil {
		b.t.Fatal(err)
	}
}

// stop ends the engine's process.
func (b *trainBench) stop(sig syscall.Signal) {
	b.t.Helper()
	b.client.Close()
	if err := os.Remove(filepath.Join(b.dir, addressFile)); err != nil {
		b.t.Error(err)
	}
	if err := b.engine.Process.Signal(sig); err != nil {
		b.t.Error(err)
	}
	done := make(chan struct{})
	go func() { b.engine.Wait(); close(done) }()
	select {
	case <-done:
	case <-time.After(testLimit):
		b.engine.Process.Kill()
		b.t.Error("the engine did not end")
		<-done
	}
}

// execute starts the train workflow.
func (b *trainBench) execute() client.WorkflowRun {
	b.t.Helper()
	run, err := b.client.ExecuteWorkflow(b.t.Context(), client.StartWorkflowOptions{
		ID: contract.TrainWorkflowID(b.in.Run, b.in.Step), TaskQueue: contract.TaskQueue,
	}, contract.TrainWorkflow, b.in)
	if err != nil {
		b.t.Fatal(err)
	}
	return run
}

// wait waits for the training to fail.
func (b *trainBench) wait() error {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.t.Context(), testLimit)
	defer cancel()
	err := b.client.GetWorkflow(ctx, contract.TrainWorkflowID(b.in.Run, b.in.Step), "").Get(ctx, nil)
	if err == nil || ctx.Err() != nil {
		b.t.Fatalf("the training ended with %v, want a failure", err)
	}
	return err
}

// state asks the training where it is.
func (b *trainBench) state() contract.TrainState {
	b.t.Helper()
	answer, err := b.client.QueryWorkflow(b.t.Context(), contract.TrainWorkflowID(b.in.Run, b.in.Step), "", contract.StateQuery)
	if err != nil {
		b.t.Fatal(err)
	}
	var state contract.TrainState
	if err := answer.Get(&state); err != nil {
		b.t.Fatal(err)
	}
	return state
}

// pending reports whether an activity of the training waits or runs.
func (b *trainBench) pending(name string) bool {
	b.t.Helper()
	d, err := b.client.DescribeWorkflowExecution(b.t.Context(), contract.TrainWorkflowID(b.in.Run, b.in.Step), "")
	if err != nil {
		b.t.Fatal(err)
	}
	for _, a := range d.GetPendingActivities() {
		if a.GetActivityType().GetName() == name {
			return true
		}
	}
	return false
}

// damage changes the content of a committed checkpoint in the store.
func (b *trainBench) damage(generation int, step int64) {
	b.t.Helper()
	ctx := b.t.Context()
	s, err := store.Open(ctx, storeURL(b.dir))
	if err != nil {
		b.t.Fatal(err)
	}
	var m checkpoint.Manifest
	if err := s.GetJSON(ctx, fmt.Sprintf("checkpoints/%s/%s/g%d/step-%d.json", b.in.Run, b.in.Step, generation, step), &m); err != nil {
		b.t.Fatal(err)
	}
	part := checkpoint.Part(s, training.Key{Run: b.in.Run, Step: b.in.Step, Generation: generation}, step)
	tree, err := part.Manifest(ctx, m.Checkpoint)
	if err != nil {
		b.t.Fatal(err)
	}
	sum := strings.TrimPrefix(tree.Files[0].Digest, "sha256:")
	if err := part.Driver().Write(ctx, "blobs/"+sum[:2]+"/"+sum, strings.NewReader(`{"step": 1}`), store.WriteOptions{}); err != nil {
		b.t.Fatal(err)
	}
}

// outputs are the step's, as later steps see them.
type outputs struct {
	spec.TrainOutput
	Model artifact.Ref `json:"model"`
}

// result waits for the training to succeed.
func (b *trainBench) result() outputs {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.t.Context(), testLimit)
	defer cancel()
	var out record.StepOutput
	if err := b.client.GetWorkflow(ctx, contract.TrainWorkflowID(b.in.Run, b.in.Step), "").Get(ctx, &out); err != nil {
		b.t.Fatalf("the training failed: %v", err)
	}
	s, err := store.Open(ctx, storeURL(b.dir))
	if err != nil {
		b.t.Fatal(err)
	}
	raw, err := loadOutputs(ctx, s, out)
	if err != nil {
		b.t.Fatal(err)
	}
	var o outputs
	if err := json.Unmarshal(raw, &o); err != nil {
		b.t.Fatal(err)
	}
	for _, g := range o.Generations {
		b.t.Logf("generation %d: %s, steps %d-%d, committed %d, lost %d, from %s for %.1f s: %s",
			g.Index, g.End, g.FromStep, g.ToStep, g.CommittedStep, g.StepsLost, g.StartedAt.Format("05.000"), g.EndedAt.Sub(g.StartedAt).Seconds(), g.Reason)
	}
	return o
}

// wantEnds checks how the generations ended.
func (b *trainBench) wantEnds(o outputs, want ...spec.GenerationEnd) {
	b.t.Helper()
	var got []spec.GenerationEnd
	for _, g := range o.Generations {
		got = append(got, g.End)
	}
	if !slices.Equal(got, want) {
		b.t.Errorf("the generations ended as %v, want %v", got, want)
	}
}

// point is one of the loss curve.
type point struct {
	Step       int64   `json:"step"`
	Loss       float64 `json:"loss"`
	Generation int     `json:"generation"`
}

func (b *trainBench) curve(o outputs) []point {
	b.t.Helper()
	s, err := store.Open(b.t.Context(), storeURL(b.dir))
	if err != nil {
		b.t.Fatal(err)
	}
	blob, err := s.Blob(b.t.Context(), o.Curve)
	if err != nil {
		b.t.Fatal(err)
	}
	defer blob.Close()
	var points []point
	if err := json.NewDecoder(blob).Decode(&points); err != nil {
		b.t.Fatal(err)
	}
	return points
}

// commits lists the committed steps of a generation, rising.
func (b *trainBench) commits(generation int) []int64 {
	b.t.Helper()
	pattern := fmt.Sprintf("store/checkpoints/%s/%s/g%d/step-*.json", b.in.Run, b.in.Step, generation)
	paths, err := filepath.Glob(filepath.Join(b.dir, pattern))
	if err != nil {
		b.t.Fatal(err)
	}
	var steps []int64
	for _, path := range paths {
		number := strings.TrimSuffix(strings.TrimPrefix(filepath.Base(path), "step-"), ".json")
		step, err := strconv.ParseInt(number, 10, 64)
		if err != nil {
			b.t.Fatal(err)
		}
		steps = append(steps, step)
	}
	slices.Sort(steps)
	return steps
}

// checkSteps compares a training's account with the trace that its ranks kept on their own. Of a step that a rank was killed at while it
// reported it, either is right: that its line was written and that it was not.
func (s *site) checkSteps(o spec.TrainOutput, total int64) {
	s.t.Helper()
	begun, reported := s.trace("trace"), s.trace("trace.reported")
	if seen := distinct(reported); seen != total || o.Steps != total {
		s.t.Errorf("%d different steps were done and %d counted, want %d", seen, o.Steps, total)
	}
	least, most := int64(len(reported))-distinct(reported), int64(len(begun))-distinct(begun)
	if o.StepsRepeated < least || o.StepsRepeated > most || o.StepsLost != o.StepsRepeated || o.StepsAtLeast {
		s.t.Errorf("%d to %d steps were done again; counted: %d lost, %d repeated, at least: %v", least, most, o.StepsLost, o.StepsRepeated, o.StepsAtLeast)
	}
}

// checkAccount checks what a training says of itself.
func (b *trainBench) checkAccount(o outputs) {
	b.t.Helper()
	total, err := strconv.ParseInt(b.env["STEPS"], 10, 64)
	if err != nil {
		b.t.Fatal(err)
	}
	b.checkSteps(o.TrainOutput, total)
	for _, g := range o.Generations {
		if g.End == spec.EndNotice && g.StepsLost != 0 {
			b.t.Errorf("generation %d lost %d steps though it had notice", g.Index, g.StepsLost)
		}
	}
	if o.Model.IsZero() || o.Metrics["f1"] != 0.5 {
		b.t.Errorf("outputs: %+v", o)
	}
}

// distinct counts the different steps.
func distinct(steps []int64) int64 {
	seen := map[int64]bool{}
	for _, step := range steps {
		seen[step] = true
	}
	return int64(len(seen))
}

// trace lists the steps that rank 0 did, in order, by one of the files that the script keeps.
func (s *site) trace(file string) []int64 {
	f, err := os.Open(filepath.Join(s.dir, file))
	if os.IsNotExist(err) {
		return nil
	} else if err != nil {
		s.t.Fatal(err)
	}
	defer f.Close()
	var steps []int64
	for lines := bufio.NewScanner(f); lines.Scan(); {
		step, err := strconv.ParseInt(lines.Text(), 10, 64)
		if err != nil {
			s.t.Fatal(err)
		}
		steps = append(steps, step)
	}
	return steps
}

// awaitSteps waits until rank 0 has done so many steps, in all.
func (b *trainBench) awaitSteps(n int) {
	b.t.Helper()
	b.await(fmt.Sprintf("%d steps", n), func() bool { return len(b.trace("trace")) >= n })
}

// rank returns the process of a rank.
func (b *trainBench) rank(rank int) int {
	b.t.Helper()
	return b.rankOf("python3 trainer.py", rank)
}

// agentOf returns the process of a node's agent.
func (b *trainBench) agentOf(generation, node int) int {
	b.t.Helper()
	return b.agent(training.Key{Run: b.in.Run, Step: b.in.Step, Generation: generation}, node)
}

func loadOutputs(ctx context.Context, s *store.Store, out record.StepOutput) (json.RawMessage, error) {
	if out.OutputsRef == "" {
		return out.Outputs, nil
	}
	blob, err := s.Blob(ctx, out.OutputsRef)
	if err != nil {
		return nil, err
	}
	defer blob.Close()
	var raw json.RawMessage
	return raw, json.NewDecoder(blob).Decode(&raw)
}
