package workflows

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/sluiceml/sluice/activities/contract"
	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/fault"
	"github.com/sluiceml/sluice/store/record"
)

// wide makes a step with instances.
func wide(id string, fan spec.Fan) spec.Node {
	n := node(id)
	n.Fan, n.Require = fan, 1
	n.Retry = spec.Retry{Attempts: 1}.WithDefaults()
	return n
}

// anyNumber of instances were started, when they stopped where they were.
const anyNumber = -1

var errLane = fault.New(fault.Invalid, "no space left on device", nil)

func TestFan(t *testing.T) {
	failing := map[string][]error{"fit.3": {userError()}, "fit.7": {userError()}}
	foreach, lenient := wide("fit", spec.FanForeach), wide("fit", spec.FanForeach)
	lenient.Require = 0.8
	careless := wide("fit", spec.FanForeach)
	careless.Require = 0
	narrow := wide("fit", spec.FanMatrix)
	narrow.MaxParallel = 1
	many := wide("fit", spec.FanForeach)
	many.MaxParallel = 200
	most := wide("fit", spec.FanForeach)
	most.MaxParallel, most.Require = 128, 0.9
	few := wide("fit", spec.FanForeach)
	few.MaxParallel, few.Require = 128, 0.5
	children := wide("fit", spec.FanForeach)
	children.Kind, children.Require = spec.KindPipeline, 0.8
	tests := []struct {
		name    string
		node    spec.Node
		world   *world
		status  spec.Status
		message string
		started int
	}{
		{"all pass", foreach, &world{of: map[string]int{"fit": 10}}, "succeeded", "", 10},
		{"in several lanes", many, &world{of: map[string]int{"fit": 300}}, "succeeded", "", 300},
		{
			"one of two lanes lost", most, &world{of: map[string]int{"fit": 200}, lanes: map[string]error{"fit": errLane}},
			"failed", "100 of 200 failed, the first with: no space left on device", anyNumber,
		},
		{
			"no more lost with a lane than may fail", few, &world{of: map[string]int{"fit": 200}, lanes: map[string]error{"fit": errLane}},
			"succeeded", "", 100,
		},
		{
			"one of two lanes canceled by itself", most, &world{of: map[string]int{"fit": 200}, lanes: map[string]error{"fit": temporal.NewCanceledError()}},
			"failed", "100 of 200 failed, the first with: canceled", anyNumber,
		},
		{
			"as many children canceled as may fail", children,
			&world{of: map[string]int{"fit": 5}, children: map[string]spec.Status{"r.fit.1": spec.StatusCanceled}}, "succeeded", "", 0,
		},
		{
			"one child canceled more", children,
			&world{of: map[string]int{"fit": 5}, children: map[string]spec.Status{"r.fit.1": spec.StatusCanceled, "r.fit.3": spec.StatusCanceled}},
			"failed", "2 of 5 failed, the first with: it was canceled, but its run was not", 0,
		},
		{
			"children turned away", children,
			&world{of: map[string]int{"fit": 5}, children: map[string]spec.Status{"r.fit.1": spec.StatusSkipped, "r.fit.3": spec.StatusSkipped}},
			"skipped", "2 of 5 failed, the first with: run x holds the group `g`", 0,
		},
		{
			"a child turned away and one that was canceled", children,
			&world{of: map[string]int{"fit": 5}, children: map[string]spec.Status{"r.fit.1": spec.StatusSkipped, "r.fit.3": spec.StatusCanceled}},
			"failed", "2 of 5 failed, the first with: it was canceled, but its run was not", 0,
		},
		{"none", foreach, &world{}, "skipped", "its list is empty", 0},
		{"one of two failures", foreach, &world{of: map[string]int{"fit": 10}, ends: failing}, "failed", "2 of 10 failed, the first with: exit code 1", 10},
		{"no further ones after a failure", narrow, &world{of: map[string]int{"fit": 10}, ends: failing}, "failed", "1 of 10 failed, the first with: exit code 1", 4},
		{"as many failures as are allowed", lenient, &world{of: map[string]int{"fit": 10}, ends: failing}, "succeeded", "", 10},
		{
			"left out, with nothing to take over", foreach, &world{of: map[string]int{"fit": 2}, when: map[string]bool{"fit": false}},
			"skipped", "2 of its 2 instances did not run, the first because: its `when` was false", 0,
		},
		{"nothing is required", careless, &world{of: map[string]int{"fit": 10}, ends: failing}, "succeeded", "", 10},
		{"one failure more", lenient, &world{of: map[string]int{"fit": 9}, ends: failing}, "failed", "2 of 9 failed, the first with: exit code 1", 9},
		{
			"a gate that declines", foreach, &world{of: map[string]int{"fit": 1}, gates: map[string]spec.Status{"fit": spec.StatusDeclined}},
			"declined", "gate", 1,
		},
		{
			"a repeat until it is done", wide("fit", spec.FanRepeat),
			&world{of: map[string]int{"fit": 10}, until: map[string]int{"fit": 2}}, "succeeded", "", 3,
		},
		{
			"a repeat that is never done", wide("fit", spec.FanRepeat), &world{of: map[string]int{"fit": 5}, until: map[string]int{"fit": 5}},
			"failed", "`until` did not hold after 5 iterations", 5,
		},
		{
			"a repeat that fails", wide("fit", spec.FanRepeat), &world{of: map[string]int{"fit": 5}, ends: failing},
			"failed", "1 of 5 failed, the first with: exit code 1", 4,
		},
		{
			"a repeat in vain", wide("fit", spec.FanRepeat), &world{
				of: map[string]int{"fit": 10}, costs: map[string]float64{"fit": 2}, begun: contract.BeginOutput{BudgetUSD: 5},
				until: map[string]int{"fit": 9},
			}, "canceled", "the run's budget is exhausted", 3,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tt.world.ends = clone(tt.world.ends)
			statuses, _ := tt.world.statuses(t, []spec.Node{tt.node})
			got := tt.world.gathered["fit"]
			if statuses["fit"] != tt.status || got.Status != tt.status || got.Error != tt.message {
				t.Errorf("it ended as %s (%s): %q; want %s: %q", statuses["fit"], got.Status, got.Error, tt.status, tt.message)
			}
			if repeated := strings.HasPrefix(tt.message, "`until`"); repeated && got.ErrorType != fault.Gate {
				t.Errorf("it is of the type %q, want that of a gate", got.ErrorType)
			}
			if tt.started == anyNumber {
				noneTwice(t, tt.world.started)
				return
			}
			once(t, tt.world.started, tt.started)
		})
	}
}

// TestRunCountsTheCostOfALostLane: the lane cannot tell of it any more.
func TestRunCountsTheCostOfALostLane(t *testing.T) {
	w := &world{of: map[string]int{"fit": 3}, lanes: map[string]error{"fit": fault.New(fault.Infrastructure, "terminated", nil)}, recorded: 4}
	if _, run := w.statuses(t, []spec.Node{wide("fit", spec.FanForeach)}); run.CostUSD != 4 {
		t.Errorf("the run cost %v, want 4", run.CostUSD)
	}
}

// clone lets two tests use the same errors.
func clone(ends map[string][]error) map[string][]error {
	all := map[string][]error{}
	for step, errs := range ends {
		all[step] = errs
	}
	return all
}

// once checks that as many different steps and instances were started as are wanted, none twice.
func once(t *testing.T, started []string, want int) {
	t.Helper()
	if got := noneTwice(t, started); got != want {
		t.Errorf("%d were started, want %d", got, want)
	}
}

func noneTwice(t *testing.T, started []string) int {
	t.Helper()
	times := map[string]int{}
	for _, id := range started {
		if times[id]++; times[id] == 2 {
			t.Errorf("%s was started twice", id)
		}
	}
	return len(times)
}

// TestWindows: lanes together do no more instances at once than `max_parallel`, and all of them.
func TestWindows(t *testing.T) {
	for parallel, want := range map[int]int{0: 64, 65: 65, 1000: 130} {
		w := &world{of: map[string]int{"fit": 130}}
		n := wide("fit", spec.FanForeach)
		n.MaxParallel = parallel
		w.statuses(t, []spec.Node{n})
		sum, of := 0, 0
		for _, lane := range w.begunLanes {
			sum, of = sum+lane.Window, of+lane.To-lane.Next
			if lane.Window > laneWindow {
				t.Errorf("%d: a lane does %d at once", parallel, lane.Window)
			}
		}
		if sum != want || of != 130 {
			t.Errorf("max_parallel %d: %d of %d instances at once, want %d of 130", parallel, sum, of, want)
		}
	}
}

func TestSpentBudgetStopsTheRunOfAFan(t *testing.T) {
	step := wide("fit", spec.FanForeach)
	step.MaxParallel = 2
	w := &world{
		of: map[string]int{"fit": 50}, costs: map[string]float64{"fit": 1}, begun: contract.BeginOutput{BudgetUSD: 10},
	}
	statuses, out := w.statuses(t, []spec.Node{step, node("next", "fit", "passed"), in(spec.SectionFinally, node("tidy"))})
	if statuses["fit"] != spec.StatusCanceled || statuses["next"] != spec.StatusCanceled || statuses["tidy"] != spec.StatusSucceeded {
		t.Errorf("the steps ended as %v", statuses)
	}
	if out.Status != spec.StatusFailed || out.ErrorType != fault.Budget {
		t.Errorf("the run ended as %+v", out)
	}
	if n := len(w.started); n < 10 || n > 13 { // ten, one that was beginning in the other place, and tidy
		t.Errorf("%d were started with money for ten", n)
	}
}

func TestCancelReachesInstances(t *testing.T) {
	w := &world{of: map[string]int{"fit": 100}, ends: map[string][]error{}}
	for i := range 100 {
		w.ends[fmt.Sprintf("fit.%d", i)] = []error{fault.New(fault.Infrastructure, "disk", nil)}
	}
	step := wide("fit", spec.FanForeach)
	step.Retry = spec.Retry{Attempts: 2, Backoff: spec.Duration(time.Hour), MaxBackoff: spec.Duration(time.Hour)}.WithDefaults()
	env := w.environment(t)
	env.RegisterDelayedCallback(env.CancelWorkflow, time.Minute)
	env.ExecuteWorkflow(contract.PipelineWorkflow, contract.RunInput{Run: "r", Name: "p", Graph: []spec.Node{step}})
	if got := w.gathered["fit"]; got.Status != spec.StatusCanceled || w.finished.Status != spec.StatusCanceled {
		t.Errorf("the step ended as %s, the run as %s", got.Status, w.finished.Status)
	}
	once(t, w.started, 64)
	for id, end := range w.judged {
		if end.Status != spec.StatusCanceled {
			t.Errorf("%s ended as %s", id, end.Status)
		}
	}
}

// TestLaneContinuesAsNew: no instance is lost or done twice where one history ends and the next begins.
func TestLaneContinuesAsNew(t *testing.T) {
	const of = 300
	step := wide("fit", spec.FanForeach)
	start := contract.LaneInput{
		ResolveInput: contract.ResolveInput{StepRef: record.StepRef{Run: "r", Step: "fit"}}, Node: step, List: "sha256:list", To: of, Window: 8,
		Allowed: 2, Every: 1,
	}
	t.Run("to its end", func(t *testing.T) {
		w := &world{ends: map[string][]error{"fit.20": {userError()}, "fit.280": {userError()}}}
		last, histories := follow[contract.LaneInput](t, w, contract.LaneWorkflow, start, nil)
		var out contract.LaneOutput
		if err := last.GetWorkflowResult(&out); err != nil {
			t.Fatal(err)
		}
		if histories < 3 || out.Passed != of-2 || out.Failed != 2 || out.Error != "exit code 1" {
			t.Errorf("after %d histories: %+v", histories, out)
		}
		once(t, w.started, of)
	})
	t.Run("until too many have failed", func(t *testing.T) {
		w := &world{ends: map[string][]error{"fit.1": {userError()}, "fit.80": {userError()}, "fit.150": {userError()}}}
		last, _ := follow[contract.LaneInput](t, w, contract.LaneWorkflow, start, nil)
		var out contract.LaneOutput
		if err := last.GetWorkflowResult(&out); err != nil || out.Failed != 3 || out.Passed < 140 || out.Passed > of-10 {
			t.Errorf("%+v, %v", out, err)
		}
		once(t, w.started, out.Passed+out.Failed)
	})
	t.Run("until it is drained", func(t *testing.T) {
		w := &world{}
		last, histories := follow(t, w, contract.LaneWorkflow, start, func(env *environment, in contract.LaneInput) {
			if in.Done.Passed > 0 { // in the second history, at its end
				env.whenLong = func() { env.SignalWorkflow(contract.DrainSignal, nil) }
			}
		})
		var out contract.LaneOutput
		if err := last.GetWorkflowResult(&out); err != nil || histories != 2 || out.Passed == of {
			t.Errorf("%d histories, %+v, %v", histories, out, err)
		}
		once(t, w.started, out.Passed)
	})
	t.Run("a repeat", func(t *testing.T) {
		w := &world{until: map[string]int{"fit": 250}}
		in := start
		in.Node.Fan, in.List, in.Window = spec.FanRepeat, "", 1
		last, histories := follow[contract.LaneInput](t, w, contract.LaneWorkflow, in, nil)
		var out contract.LaneOutput
		if err := last.GetWorkflowResult(&out); err != nil || histories < 3 || !out.Satisfied || out.Passed != 251 {
			t.Errorf("%d histories, %+v, %v", histories, out, err)
		}
		once(t, w.started, 251)
	})
}

// TestLaneTellsSparingly: what it tells is in the history of its run.
func TestLaneTellsSparingly(t *testing.T) {
	var notes int
	step := wide("fit", spec.FanForeach)
	step.Retry = spec.Retry{Attempts: 2, Backoff: spec.Duration(10 * time.Second)}.WithDefaults()
	w := &world{ends: map[string][]error{}}
	for i := range 1000 {
		w.ends[fmt.Sprintf("fit.%d", i)] = []error{fault.New(fault.Infrastructure, "disk", nil)} // each takes ten seconds
	}
	env := w.environment(t)
	env.RegisterWorkflowWithOptions(func(ctx workflow.Context, in contract.LaneInput) (out contract.LaneOutput, err error) {
		workflow.Go(ctx, func(ctx workflow.Context) {
			for workflow.GetSignalChannel(ctx, contract.NoteSignal).Receive(ctx, nil) {
				notes++
			}
		})
		ctx = workflow.WithChildOptions(ctx, workflow.ChildWorkflowOptions{WorkflowID: "lane"})
		return out, workflow.ExecuteChildWorkflow(ctx, contract.LaneWorkflow, in).Get(ctx, &out)
	}, workflow.RegisterOptions{Name: "parent"})
	env.ExecuteWorkflow("parent", contract.LaneInput{
		ResolveInput: contract.ResolveInput{StepRef: record.StepRef{Run: "r", Step: "fit"}}, Node: step, To: 1000, Window: 10, Every: 50,
	})
	if err := env.GetWorkflowError(); err != nil {
		t.Fatal(err)
	}
	if notes < 15 || notes > 20 {
		t.Errorf("%d notes on 1000 instances, want about 20", notes)
	}
}
