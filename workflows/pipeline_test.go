package workflows

import (
	"context"
	"encoding/json"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/workflow"

	"github.com/sluiceml/sluice/activities/contract"
	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/fault"
	"github.com/sluiceml/sluice/internal/testing/flowtest"
	"github.com/sluiceml/sluice/store/record"
)

// world plays the activities: a step does what its entry says, and the judge takes it at its word.
type world struct {
	// ends maps a step to the errors of its attempts, in order; after them, or without any, it succeeds.
	ends map[string][]error
	// when maps a step to false when its `when` is; gates to the status its gate makes of a success.
	when  map[string]bool
	gates map[string]spec.Status
	// broken are the steps whose success cannot be evaluated.
	broken map[string]bool
	// hits maps a step to the run that its result is taken over from; costs to what it costs.
	hits  map[string]string
	costs map[string]float64
	// recorded is what the instances of a step have cost by their records.
	recorded float64
	begun    contract.BeginOutput
	// publishes are the steps that are not judged where they are done.
	publishes map[string]bool
	// full makes records that were written stay where a crash would lose them.
	full bool
	// of maps a fanned-out step to how many instances it has, until a repeated one to its last iteration, and holds a step to the
	// question its gate asks.
	of    map[string]int
	until map[string]int
	holds map[string]contract.ApprovalInput
	// descends is the graph of child runs, unless children says how a child's run ends, by its name: canceled by itself or skipped, since
	// another held its group. lanes maps a step to how its first lane ends.
	descends []spec.Node
	children map[string]spec.Status
	lanes    map[string]error
	// outcomes maps a step, or an instance, to how the workflow ends that does it: its child run, training, rollout or question; asks to what
	// an approval asks.
	outcomes map[string]outcome
	asks     map[string]contract.ApprovalInput

	// unsettled is why a run cannot read what it reads of others, settled how often it did.
	unsettled error
	settled   int

	mu      sync.Mutex
	started []string
	// begunLanes are the lanes, as they begin.
	begunLanes []contract.LaneInput
	judged     map[string]contract.StepEnd
	gathered   map[string]contract.GatherInput
	// clock counts what happens; began and ended say when a step was first resolved and when it was over, and final how.
	clock        int
	began, ended map[string]int
	final        map[string]spec.Status
	finished     record.RunOutput
}

// outcome is how a workflow ends that takes a while.
type outcome struct {
	lasts  time.Duration
	status spec.Status // of a run
	err    error
}

// tester is a test, or a check of a property.
type tester interface {
	Helper()
	Fatal(args ...any)
	Errorf(format string, args ...any)
}

func (w *world) environment(t tester) *testsuite.TestWorkflowEnvironment {
	t.Helper()
	env := flowtest.New()
	for name, f := range map[string]any{
		contract.PipelineWorkflow: w.pipeline, contract.LaneWorkflow: w.lane, contract.ApprovalWorkflow: w.approval, contract.LockWorkflow: Lock,
		contract.TrainWorkflow: w.child, contract.RolloutWorkflow: w.child,
	} {
		env.RegisterWorkflowWithOptions(f, workflow.RegisterOptions{Name: name})
	}
	if w.judged == nil {
		w.judged, w.gathered = map[string]contract.StepEnd{}, map[string]contract.GatherInput{}
		w.began, w.ended, w.final = map[string]int{}, map[string]int{}, map[string]spec.Status{}
	}
	register := func(name string, f any) { env.RegisterActivityWithOptions(f, activity.RegisterOptions{Name: name}) }
	register(contract.BeginActivity, func(context.Context, contract.BeginInput) (contract.BeginOutput, error) { return w.begun, nil })
	register(contract.SettleActivity, func(context.Context, contract.SettleInput) error {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.settled++
		return w.unsettled
	})
	register(contract.ChildActivity, func(_ context.Context, in contract.ChildInput) (contract.RunInput, error) {
		return contract.RunInput{Run: record.ChildRun(in.Run, in.Step, in.Attempt), Name: "child", Graph: w.descends}, nil
	})
	register(contract.ResolveActivity, w.resolve)
	register(contract.SyncActivity, w.sync)
	register(contract.RecordActivity, w.record)
	register(contract.ExpandActivity, w.expand)
	register(contract.GatherActivity, w.gather)
	register(contract.RunActivity, w.run)
	register(contract.VerdictActivity, w.judge)
	register(contract.FinishActivity, func(_ context.Context, in contract.FinishInput) (record.RunOutput, error) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.finished = in.RunOutput
		return in.RunOutput, nil
	})
	return env
}

// child plays a training or a rollout.
func (w *world) child(ctx workflow.Context, in record.StepInput) (record.StepOutput, error) {
	return record.StepOutput{Outputs: json.RawMessage(`{}`)}, w.outcomes[in.Step].happen(ctx)
}

func (w *world) approval(ctx workflow.Context, in contract.ApprovalInput) (record.Decision, error) {
	if o := w.outcomes[in.Step]; o.err != nil {
		return record.Decision{}, o.happen(ctx)
	}
	return Approval(ctx, in)
}

// happen ends a workflow so, but not at once: the test environment could not cancel it.
func (o outcome) happen(ctx workflow.Context) error {
	if err := workflow.Sleep(ctx, max(o.lasts, time.Second)); err != nil {
		return err
	}
	return o.err
}

func (w *world) pipeline(ctx workflow.Context, in contract.RunInput) (record.RunOutput, error) {
	if o, set := w.outcomes[strings.TrimPrefix(in.Run, "r.")]; set {
		return record.RunOutput{Status: o.status, Error: "so it ended"}, o.happen(ctx)
	}
	switch w.children[in.Run] {
	case spec.StatusCanceled:
		return record.RunOutput{}, temporal.NewCanceledError()
	case spec.StatusSkipped:
		return record.RunOutput{Status: spec.StatusSkipped, Error: "run x holds the group `g`"}, nil
	default:
		return Pipeline(ctx, in)
	}
}

func (w *world) lane(ctx workflow.Context, in contract.LaneInput) (contract.LaneOutput, error) {
	if in.Done.Passed+in.Done.Failed == 0 {
		w.begunLanes = append(w.begunLanes, in)
	}
	if err := w.lanes[in.Step]; err != nil && in.Next == 0 {
		if err := workflow.Sleep(ctx, time.Second); err != nil { // the test environment cannot cancel a child that ends at once
			return contract.LaneOutput{}, err
		}
		return contract.LaneOutput{}, err
	}
	return Lane(ctx, in)
}

func (w *world) sync(context.Context, contract.SyncInput) error {
	if w.full {
		return temporal.NewNonRetryableApplicationError("no space left on device", fault.Infrastructure, nil)
	}
	return nil
}

func (w *world) resolve(_ context.Context, in contract.ResolveInput) (contract.Resolved, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.note(in.Ends)
	return *w.resolved(in), nil
}

func (w *world) resolved(in contract.ResolveInput) *contract.Resolved {
	w.begin(in.Step)
	if yes, set := of(w.when, in.StepRef); set && !yes {
		return &contract.Resolved{Skip: "its `when` was false"}
	}
	if run, _ := of(w.hits, in.StepRef); run != "" {
		return &contract.Resolved{Hit: run, Output: record.StepOutput{Outputs: json.RawMessage(`{}`)}}
	}
	r := &contract.Resolved{Step: record.StepInput{
		Run: in.Run, Step: in.ID(), Kind: spec.KindRun, Spec: json.RawMessage(`{"target": "` + in.ID() + `"}`),
	}}
	if ask, set := of(w.asks, in.StepRef); set {
		ask.Run, ask.Step, r.Ask = in.Run, in.ID(), &ask
	}
	return r
}

// of is what is said of an instance, or else of its step.
func of[V any](said map[string]V, at record.StepRef) (V, bool) {
	if v, set := said[at.ID()]; set {
		return v, true
	}
	v, set := said[at.Step]
	return v, set
}

// run does a step, and judges it unless it is one that publishes.
func (w *world) run(_ context.Context, in contract.PerformInput) (out contract.Performed, _ error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.note(in.Ends)
	w.started = append(w.started, in.StepInput.Step)
	if errs := w.ends[in.StepInput.Step]; len(errs) > 0 {
		w.ends[in.StepInput.Step] = errs[1:]
		return out, errs[0]
	}
	out.Outputs = json.RawMessage(`{}`)
	if in.End == nil || w.publishes[in.End.Step] {
		return out, nil
	}
	end := *in.End
	end.Run, end.Submission, end.Status, end.Output = in.StepInput.Run, in.StepInput.Submission, spec.StatusSucceeded, out.StepOutput
	word := w.word(end)
	if end.Instance == nil && word.Status != spec.StatusHold {
		w.end(end.Step, word.Status)
	}
	for _, next := range end.Next {
		if word.Status != spec.StatusSucceeded || end.Instance == nil && w.final[end.Step] != word.Status { // it was canceled before it began
			break
		}
		next.Run = end.Run
		word.Next = append(word.Next, w.resolved(next))
	}
	out.Verdict = &word
	return out, nil
}

// note keeps the ends of steps.
func (w *world) note(ends []contract.StepEnd) {
	for _, in := range ends {
		w.judged[in.ID()] = in
		if in.Instance == nil {
			w.end(in.Step, w.word(in).Status)
		}
	}
}

func (w *world) record(_ context.Context, in contract.RecordInput) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.note(in.Ends)
	return nil
}

func (w *world) begin(step string) {
	w.clock++
	if w.began[step] == 0 {
		w.began[step] = w.clock
	}
}

// end notes the first time that a step was known to have ended.
func (w *world) end(step string, status spec.Status) {
	if w.ended[step] == 0 {
		w.clock++
		w.ended[step], w.final[step] = w.clock, status
	}
}

func (w *world) judge(_ context.Context, in contract.StepEnd) (contract.StepVerdict, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.note(in.Ends)
	if w.broken[in.Step] && in.Status == spec.StatusSucceeded {
		return contract.StepVerdict{}, temporal.NewNonRetryableApplicationError("publish: output `n` is no artifact", fault.Invalid, nil)
	}
	out := w.word(in)
	if out.Status != spec.StatusHold {
		w.note([]contract.StepEnd{in})
	}
	return out, nil
}

// word is the judge's on the end of a step.
func (w *world) word(in contract.StepEnd) contract.StepVerdict {
	out := contract.StepVerdict{Status: in.Status, Error: in.Error, ErrorType: in.ErrorType, CostUSD: w.costs[in.Step]}
	if in.Status != spec.StatusSucceeded {
		return out
	}
	if gated, set := of(w.gates, in.StepRef); set {
		out.Status, out.Error, out.ErrorType = gated, "gate", fault.Gate
	}
	switch question, set := of(w.holds, in.StepRef); {
	case set && in.Decision == nil:
		question.Run, question.Step = in.Run, in.ID()
		return contract.StepVerdict{Status: spec.StatusHold, Hold: &question}
	case set && !in.Decision.Approved:
		out.Status, out.Error, out.ErrorType = spec.StatusFailed, "rejected", fault.Gate
	}
	if in.Instance != nil {
		last, set := w.until[in.Step]
		out.Done = set && in.Instance.Index >= last
	}
	return out
}

func (w *world) expand(_ context.Context, in contract.ResolveInput) (contract.Expanded, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.begin(in.Step)
	if w.of[in.Step] == 0 {
		return contract.Expanded{Skip: "its list is empty"}, nil
	}
	return contract.Expanded{List: "sha256:list", Of: w.of[in.Step]}, nil
}

func (w *world) gather(_ context.Context, in contract.GatherInput) (contract.StepVerdict, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.gathered[in.Step] = in
	w.end(in.Step, in.Status)
	return contract.StepVerdict{Status: in.Status, Error: in.Error, ErrorType: in.ErrorType, CostUSD: w.recorded}, nil
}

// statuses runs a graph and returns how each step and the run ended.
func (w *world) statuses(t *testing.T, graph []spec.Node) (map[string]spec.Status, record.RunOutput) {
	t.Helper()
	env := w.environment(t)
	env.ExecuteWorkflow(contract.PipelineWorkflow, contract.RunInput{Run: "r", Name: "p", Graph: graph})
	if !env.IsWorkflowCompleted() {
		t.Fatal("the run did not end")
	}
	value, err := env.QueryWorkflow(contract.StateQuery)
	if err != nil {
		t.Fatal(err)
	}
	var state contract.RunState
	if err := value.Get(&state); err != nil {
		t.Fatal(err)
	}
	got := map[string]spec.Status{}
	for _, s := range state.Steps {
		got[s.ID] = s.Status
	}
	return got, w.finished
}

// node makes a step; needs are pairs of step and need.
func node(id string, needs ...string) spec.Node {
	n := spec.Node{ID: id, Kind: spec.KindRun, Needs: map[string]spec.Need{}}
	for i := 0; i < len(needs); i += 2 {
		n.After = append(n.After, needs[i])
		n.Needs[needs[i]] = spec.Need(needs[i+1])
	}
	return n
}

func userError() error { return fault.New(fault.User, "exit code 1", nil) }

func TestHowStepsEnd(t *testing.T) {
	infra := fault.New(fault.Infrastructure, "disk", nil)
	tests := []struct {
		name  string
		graph []spec.Node
		world *world
		want  map[string]spec.Status
		run   spec.Status
	}{{
		name:  "a chain",
		graph: []spec.Node{node("a"), node("b", "a", "passed"), node("c", "b", "passed")},
		want:  map[string]spec.Status{"a": "succeeded", "b": "succeeded", "c": "succeeded"},
		run:   spec.StatusSucceeded,
	}, {
		name:  "a failure keeps its readers from running and nobody else",
		graph: []spec.Node{node("a"), node("b", "a", "passed"), node("c", "b", "passed"), node("d")},
		world: &world{ends: map[string][]error{"a": {userError()}}},
		want:  map[string]spec.Status{"a": "failed", "b": "upstream", "c": "upstream", "d": "succeeded"},
		run:   spec.StatusFailed,
	}, {
		name: "the four needs after a failure",
		graph: []spec.Node{
			node("a"), node("passed", "a", "passed"), node("not_failed", "a", "not_failed"), node("ended", "a", "ended"), node("failed", "a", "failed"),
		},
		world: &world{ends: map[string][]error{"a": {userError()}}},
		want:  map[string]spec.Status{"a": "failed", "passed": "upstream", "not_failed": "upstream", "ended": "succeeded", "failed": "succeeded"},
		run:   spec.StatusFailed,
	}, {
		name: "the four needs after a skip",
		graph: []spec.Node{
			node("a"), node("passed", "a", "passed"), node("not_failed", "a", "not_failed"), node("ended", "a", "ended"), node("failed", "a", "failed"),
		},
		world: &world{when: map[string]bool{"a": false}},
		want:  map[string]spec.Status{"a": "skipped", "passed": "skipped", "not_failed": "succeeded", "ended": "succeeded", "failed": "skipped"},
		run:   spec.StatusSucceeded,
	}, {
		name:  "not_failed does not run after an upstream failure",
		graph: []spec.Node{node("a"), node("b", "a", "passed"), node("c", "b", "not_failed")},
		world: &world{ends: map[string][]error{"a": {userError()}}},
		want:  map[string]spec.Status{"a": "failed", "b": "upstream", "c": "upstream"},
		run:   spec.StatusFailed,
	}, {
		name:  "a gate that stops declines the run",
		graph: []spec.Node{node("a"), node("b", "a", "passed")},
		world: &world{gates: map[string]spec.Status{"a": spec.StatusDeclined}},
		want:  map[string]spec.Status{"a": "declined", "b": "upstream"},
		run:   spec.StatusDeclined,
	}, {
		name:  "infrastructure is retried within the budget",
		graph: []spec.Node{{ID: "a", Kind: spec.KindRun, Retry: spec.Retry{Attempts: 3}.WithDefaults()}},
		world: &world{ends: map[string][]error{"a": {infra, infra}}},
		want:  map[string]spec.Status{"a": "succeeded"},
		run:   spec.StatusSucceeded,
	}, {
		name:  "and not beyond it",
		graph: []spec.Node{{ID: "a", Kind: spec.KindRun, Retry: spec.Retry{Attempts: 2}.WithDefaults()}},
		world: &world{ends: map[string][]error{"a": {infra, infra}}},
		want:  map[string]spec.Status{"a": "failed"},
		run:   spec.StatusFailed,
	}, {
		name:  "a user's error is not retried unless asked",
		graph: []spec.Node{{ID: "a", Kind: spec.KindRun, Retry: spec.Retry{Attempts: 3}.WithDefaults()}},
		world: &world{ends: map[string][]error{"a": {userError()}}},
		want:  map[string]spec.Status{"a": "failed"},
		run:   spec.StatusFailed,
	}, {
		name:  "a user's error is retried when asked",
		graph: []spec.Node{{ID: "a", Kind: spec.KindRun, Retry: spec.Retry{Attempts: 2, Errors: []string{"user"}}.WithDefaults()}},
		world: &world{ends: map[string][]error{"a": {userError()}}},
		want:  map[string]spec.Status{"a": "succeeded"},
		run:   spec.StatusSucceeded,
	}}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := tt.world
			if w == nil {
				w = &world{}
			}
			got, run := w.statuses(t, tt.graph)
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("steps (-want +got):\n%s", diff)
			}
			if run.Status != tt.run {
				t.Errorf("the run ended as %q, want %q", run.Status, tt.run)
			}
		})
	}
}

func TestAttemptsAreKeptWithTheirReasons(t *testing.T) {
	for name, tt := range map[string]struct {
		err  error
		want record.Attempt
	}{
		"it failed": {fault.New(fault.Infrastructure, "disk", nil), record.Attempt{ErrorType: fault.Infrastructure, Error: "disk"}},
		"its worker was lost": {temporal.NewHeartbeatTimeoutError(), record.Attempt{
			ErrorType: fault.Infrastructure, Error: "the worker that ran it stopped answering", Interrupted: true,
		}},
	} {
		t.Run(name, func(t *testing.T) {
			w := &world{ends: map[string][]error{"a": {tt.err}}}
			w.statuses(t, []spec.Node{{ID: "a", Kind: spec.KindRun, Retry: spec.Retry{Attempts: 2}.WithDefaults()}})
			if diff := cmp.Diff([]record.Attempt{tt.want}, w.judged["a"].Attempts, cmpopts.IgnoreTypes(time.Time{})); diff != "" {
				t.Errorf("attempts (-want +got):\n%s", diff)
			}
		})
	}
}

func TestTakenOverStepsAreNotDoneAgain(t *testing.T) {
	w := &world{hits: map[string]string{"a": "old"}}
	got, _ := w.statuses(t, []spec.Node{node("a"), node("b", "a", "passed")})
	if diff := cmp.Diff(map[string]spec.Status{"a": "succeeded", "b": "succeeded"}, got); diff != "" {
		t.Errorf("steps (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"b"}, w.started); diff != "" {
		t.Errorf("started (-want +got):\n%s", diff)
	}
	if from := w.judged["a"].ReusedFrom; from != "old" {
		t.Errorf("a was taken from run %q, want \"old\"", from)
	}
}

// in puts a step into a section.
func in(section spec.Section, n spec.Node) spec.Node {
	n.Section = section
	return n
}

func TestSections(t *testing.T) {
	graph := []spec.Node{node("a"), node("b", "a", "passed"), in(spec.SectionOnFailure, node("page")), in(spec.SectionFinally, node("tidy"))}
	tests := []struct {
		name  string
		world *world
		want  map[string]spec.Status
		run   spec.Status
	}{
		{"after success", &world{}, map[string]spec.Status{"a": "succeeded", "b": "succeeded", "page": "skipped", "tidy": "succeeded"}, "succeeded"},
		{
			"after a failure", &world{ends: map[string][]error{"a": {userError()}}},
			map[string]spec.Status{"a": "failed", "b": "upstream", "page": "succeeded", "tidy": "succeeded"},
			"failed",
		},
		{
			"after a decline", &world{gates: map[string]spec.Status{"a": spec.StatusDeclined}},
			map[string]spec.Status{"a": "declined", "b": "upstream", "page": "skipped", "tidy": "succeeded"},
			"declined",
		},
		{
			"a failure at the end fails the run", &world{ends: map[string][]error{"tidy": {userError()}}},
			map[string]spec.Status{"a": "succeeded", "b": "succeeded", "page": "skipped", "tidy": "failed"},
			"failed",
		},
		{
			"after the budget is spent", &world{costs: map[string]float64{"a": 5}, begun: contract.BeginOutput{BudgetUSD: 4}},
			map[string]spec.Status{"a": "succeeded", "b": "canceled", "page": "succeeded", "tidy": "succeeded"},
			"failed",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, run := tt.world.statuses(t, graph)
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("steps (-want +got):\n%s", diff)
			}
			if run.Status != tt.run {
				t.Errorf("the run ended as %q, want %q", run.Status, tt.run)
			}
		})
	}
}

func TestFinallyRunsAfterACancel(t *testing.T) {
	w := &world{ends: map[string][]error{"a": {fault.New(fault.Infrastructure, "disk", nil)}}}
	env := w.environment(t)
	env.RegisterDelayedCallback(env.CancelWorkflow, time.Second)
	env.ExecuteWorkflow(contract.PipelineWorkflow, contract.RunInput{Run: "r", Name: "p", Graph: []spec.Node{
		{ID: "a", Kind: spec.KindRun, Retry: spec.Retry{Attempts: 2, Backoff: spec.Duration(time.Hour), MaxBackoff: spec.Duration(time.Hour)}.WithDefaults()},
		in(spec.SectionFinally, node("tidy")),
	}})
	if tidy := w.judged["tidy"]; tidy.Status != spec.StatusSucceeded || tidy.RunContext.Status != spec.StatusCanceled {
		t.Errorf("tidy ended as %q in a run that was %q, want succeeded in canceled", tidy.Status, tidy.RunContext.Status)
	}
	if w.finished.Status != spec.StatusCanceled {
		t.Errorf("the run's record says %q, want canceled", w.finished.Status)
	}
}

// Whoever looks while a step is tried again is told which attempt that is, and why the one before failed.
func TestStateSaysWhyAStepIsTriedAgain(t *testing.T) {
	w := &world{ends: map[string][]error{"a": {fault.New(fault.Infrastructure, "no space left on device\nat line 3", nil)}}}
	env := w.environment(t)
	var state contract.RunState
	env.RegisterDelayedCallback(func() { // in the pause before the second attempt
		value, err := env.QueryWorkflow(contract.StateQuery)
		if err == nil {
			err = value.Get(&state)
		}
		if err != nil {
			t.Error(err)
		}
	}, time.Second)
	env.ExecuteWorkflow(contract.PipelineWorkflow, contract.RunInput{Run: "r", Name: "p", Graph: []spec.Node{
		{ID: "a", Kind: spec.KindRun, Retry: spec.Retry{Attempts: 2, Backoff: spec.Duration(time.Hour), MaxBackoff: spec.Duration(time.Hour)}.WithDefaults()},
	}})
	if len(state.Steps) != 1 || state.Steps[0].Attempt != 2 || state.Steps[0].Before != "no space left on device" {
		t.Errorf("the state is %+v", state.Steps)
	}
}

func TestContinueOnError(t *testing.T) {
	a := node("a")
	a.ContinueOnError = true
	w := &world{ends: map[string][]error{"a": {userError()}}}
	got, run := w.statuses(t, []spec.Node{a, node("b", "a", "passed"), node("c", "a", "not_failed"), node("d", "a", "failed")})
	want := map[string]spec.Status{"a": "failed", "b": "skipped", "c": "succeeded", "d": "succeeded"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("steps (-want +got):\n%s", diff)
	}
	if run.Status != spec.StatusSucceeded {
		t.Errorf("the run ended as %q, want succeeded", run.Status)
	}
}

func TestCancelAtOnceHasARecord(t *testing.T) {
	w := &world{}
	env := w.environment(t)
	env.RegisterDelayedCallback(env.CancelWorkflow, 0)
	env.ExecuteWorkflow(contract.PipelineWorkflow, contract.RunInput{Run: "r", Name: "p", Graph: []spec.Node{node("a")}})
	if w.finished.Status != spec.StatusCanceled || len(w.started) > 0 {
		t.Errorf("the run's record says %q; started were %v", w.finished.Status, w.started)
	}
}

func TestCancelEndsEveryStepAndClosesTheRecord(t *testing.T) {
	w := &world{ends: map[string][]error{"a": {fault.New(fault.Infrastructure, "disk", nil)}}}
	env := w.environment(t)
	env.RegisterDelayedCallback(env.CancelWorkflow, time.Second) // in the middle of a's pause before its second attempt
	env.ExecuteWorkflow(contract.PipelineWorkflow, contract.RunInput{Run: "r", Name: "p", Graph: []spec.Node{
		{ID: "a", Kind: spec.KindRun, Retry: spec.Retry{Attempts: 2, Backoff: spec.Duration(time.Hour)}.WithDefaults()}, node("b", "a", "ended"),
	}})
	if w.finished.Status != spec.StatusCanceled {
		t.Errorf("the run's record says %q, want canceled", w.finished.Status)
	}
	if b := w.judged["b"]; b.Status != spec.StatusCanceled {
		t.Errorf("b ended as %q, want canceled", b.Status)
	}
	if fault.TypeOf(env.GetWorkflowError()) != fault.Canceled {
		t.Errorf("the workflow ended with %v, want a cancel", env.GetWorkflowError())
	}
}

// TestTimeMadeUpForTwice: a schedule that pauses when a run fails is not paused by a time that had its run.
func TestTimeMadeUpForTwice(t *testing.T) {
	w := &world{begun: contract.BeginOutput{MadeUp: true}}
	env := w.environment(t)
	env.ExecuteWorkflow(contract.PipelineWorkflow, contract.RunInput{Run: "r", Name: "p", Graph: []spec.Node{{ID: "a", Kind: spec.KindRun}}})
	var out record.RunOutput
	if err := env.GetWorkflowResult(&out); err != nil || out.Status != spec.StatusSkipped {
		t.Errorf("it ended as %+v, %v", out, err)
	}
	if len(w.began) > 0 || w.finished.Status != "" {
		t.Errorf("it began %v, and its record was closed as %q", w.began, w.finished.Status)
	}
}

// TestUnevaluatedStepHasARecord: a step of which nobody can say whether it succeeded is recorded as failed, with what it made.
func TestUnevaluatedStepHasARecord(t *testing.T) {
	w := &world{broken: map[string]bool{"a": true}, publishes: map[string]bool{"a": true}}
	env := w.environment(t)
	env.ExecuteWorkflow(contract.PipelineWorkflow, contract.RunInput{Run: "r", Name: "p", Graph: []spec.Node{{ID: "a", Kind: spec.KindRun}}})
	if err := env.GetWorkflowError(); fault.TypeOf(err) != fault.Invalid {
		t.Errorf("the run ended with %v", err)
	}
	if end := w.judged["a"]; end.Status != spec.StatusFailed || end.ErrorType != fault.Invalid || end.Output.IsZero() || w.finished.Status != spec.StatusFailed {
		t.Errorf("the record is of %+v, the run ended as %+v", end, w.finished)
	}
}
