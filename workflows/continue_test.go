package workflows

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/workflow"

	"github.com/sluiceml/sluice/activities/contract"
	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/fault"
	"github.com/sluiceml/sluice/workflows/durable"
)

// environment is one history of a workflow. Each local activity makes it longer by grows; whenLong is called when that is too long.
type environment struct {
	*testsuite.TestWorkflowEnvironment
	grows    int
	length   int
	whenLong func()
	// cancelAfter so many local activities; 0: never.
	cancelAfter int
}

func (e *environment) grow() {
	if e.cancelAfter--; e.cancelAfter == 0 {
		e.CancelWorkflow()
	}
	before := e.length
	e.length += e.grows
	e.SetCurrentHistoryLength(e.length)
	if before < durable.LongHistory && e.length >= durable.LongHistory && e.whenLong != nil {
		e.whenLong()
	}
}

// follow takes a workflow from one history to the next, until its end, and returns the last with how many there were.
func follow[In any](t tester, w *world, name string, in In, prepare func(*environment, In)) (*environment, int) {
	t.Helper()
	for histories := 1; histories <= 100; histories++ {
		env := &environment{TestWorkflowEnvironment: w.environment(t), grows: 75}
		env.SetOnLocalActivityCompletedListener(func(*activity.Info, converter.EncodedValue, error) { env.grow() })
		env.SetOnActivityCompletedListener(func(*activity.Info, converter.EncodedValue, error) { env.grow() })
		if prepare != nil {
			prepare(env, in)
		}
		env.ExecuteWorkflow(name, in)
		var again *workflow.ContinueAsNewError
		if !errors.As(env.GetWorkflowError(), &again) {
			return env, histories
		}
		in = nextInput[In](t, again)
	}
	t.Fatal("it has no end")
	return nil, 0
}

// nextInput is what the next history begins with.
func nextInput[In any](t tester, again *workflow.ContinueAsNewError) (in In) {
	t.Helper()
	if err := converter.GetDefaultDataConverter().FromPayloads(again.Input, &in); err != nil {
		t.Fatal(err)
	}
	return in
}

// big is a graph with a chain, a broad front, and steps for afterwards.
func big() []spec.Node {
	graph := []spec.Node{node("c0")}
	for i := 1; i < 30; i++ {
		graph = append(graph, node(fmt.Sprint("c", i), fmt.Sprint("c", i-1), "passed"))
	}
	for i := range 120 {
		graph = append(graph, node(fmt.Sprint("w", i)))
	}
	for i := range 40 {
		graph = append(graph, in(spec.SectionOnFailure, node(fmt.Sprint("f", i))))
	}
	for i := range 40 {
		graph = append(graph, in(spec.SectionFinally, node(fmt.Sprint("z", i))))
	}
	return graph
}

// count counts steps by the first letter of their ID and how they ended.
func count(w *world) map[string]int {
	got := map[string]int{}
	for id, end := range w.judged {
		got[id[:1]+" "+string(end.Status)]++
	}
	return got
}

func TestRunContinuesAsNew(t *testing.T) {
	in := contract.RunInput{Run: "r", Name: "p", Graph: big()}
	t.Run("success", func(t *testing.T) {
		w := &world{costs: map[string]float64{"c0": 1, "c20": 2}}
		last, histories := follow[contract.RunInput](t, w, contract.PipelineWorkflow, in, nil)
		if err := last.GetWorkflowError(); err != nil || histories < 4 {
			t.Errorf("%d histories, %v", histories, err)
		}
		once(t, w.started, 30+120+40)
		want := map[string]int{"c succeeded": 30, "w succeeded": 120, "f skipped": 40, "z succeeded": 40}
		if diff := cmp.Diff(want, count(w)); diff != "" {
			t.Errorf("steps (-want +got):\n%s", diff)
		}
		if w.finished.Status != spec.StatusSucceeded || w.finished.CostUSD != 3 {
			t.Errorf("the run ended as %+v", w.finished)
		}
	})
	t.Run("failure", func(t *testing.T) {
		w := &world{ends: map[string][]error{"c10": {userError()}}}
		_, histories := follow[contract.RunInput](t, w, contract.PipelineWorkflow, in, nil)
		if histories < 4 {
			t.Errorf("%d histories", histories)
		}
		want := map[string]int{
			"c succeeded": 10, "c failed": 1, "c upstream": 19, "w succeeded": 120, "f succeeded": 40, "z succeeded": 40,
		}
		if diff := cmp.Diff(want, count(w)); diff != "" {
			t.Errorf("steps (-want +got):\n%s", diff)
		}
		for id, end := range w.judged {
			if (id[0] == 'f' || id[0] == 'z') && (end.RunContext.Status != spec.StatusFailed || len(end.Failed) != 1 || end.Failed[0].Step != "c10") {
				t.Errorf("%s was told of %+v", id, end.RunContext)
			}
		}
		if w.finished.Status != spec.StatusFailed || w.finished.Error != "c10: exit code 1" || w.finished.ErrorType != fault.User {
			t.Errorf("the run ended as %+v", w.finished)
		}
	})
	// A cancel is heard in whatever history it comes, also just when that is to end, and holds for those that follow.
	for _, when := range []string{"first", "second"} {
		t.Run("cancel at the end of the "+when, func(t *testing.T) {
			w := &world{}
			_, histories := follow(t, w, contract.PipelineWorkflow, in, func(env *environment, in contract.RunInput) {
				if (in.Continuation == nil) == (when == "first") && (in.Continuation == nil || !in.Continuation.Canceled) {
					env.whenLong = env.CancelWorkflow
				}
			})
			got := count(w)
			if histories < 3 || got["c canceled"] == 0 || got["f succeeded"] != 40 || got["z succeeded"] != 40 {
				t.Errorf("after %d histories: %v", histories, got)
			}
			if w.finished.Status != spec.StatusCanceled {
				t.Errorf("the run ended as %+v", w.finished)
			}
			if n, done := noneTwice(t, w.started), got["c succeeded"]+got["w succeeded"]+80; n < done || n > done+maxInFlight {
				t.Errorf("%d were started, %d are done", n, done)
			}
		})
	}
	t.Run("budget", func(t *testing.T) {
		w := &world{costs: map[string]float64{"w5": 9}, begun: contract.BeginOutput{BudgetUSD: 4}}
		follow[contract.RunInput](t, w, contract.PipelineWorkflow, in, nil)
		got := count(w)
		if got["c canceled"] == 0 || got["f succeeded"] != 40 || got["z succeeded"] != 40 {
			t.Errorf("the steps ended as %v", got)
		}
		if w.finished.ErrorType != fault.Budget || !strings.Contains(w.finished.Error, "$9.00 of its budget of $4.00") {
			t.Errorf("the run ended as %+v", w.finished)
		}
	})
}

// TestRetriesContinueAsNew: a step, or an instance, that fails again and again is tried as often as it may be, in as many histories as
// that takes.
func TestRetriesContinueAsNew(t *testing.T) {
	const attempts = 90
	failures := func() (errs []error) {
		for range attempts - 1 {
			errs = append(errs, userError())
		}
		return errs
	}
	retry := spec.Retry{
		Attempts: attempts, Errors: []string{fault.User}, Backoff: spec.Duration(time.Second), MaxBackoff: spec.Duration(time.Minute),
	}
	shaky := node("shaky")
	shaky.Retry = retry
	for name, graph := range map[string][]spec.Node{
		"step": {node("a"), shaky, node("b", "shaky", "passed")},
	} {
		t.Run(name, func(t *testing.T) {
			w := &world{ends: map[string][]error{"shaky": failures()}}
			_, histories := follow[contract.RunInput](t, w, contract.PipelineWorkflow, contract.RunInput{Run: "r", Name: "p", Graph: graph}, nil)
			if histories < 3 || w.finished.Status != spec.StatusSucceeded {
				t.Errorf("after %d histories the run ended as %+v", histories, w.finished)
			}
			if n := len(w.judged["shaky"].Attempts); n != attempts-1 {
				t.Errorf("its record has %d attempts that failed, want %d", n, attempts-1)
			}
		})
	}
	t.Run("instance", func(t *testing.T) {
		w := &world{ends: map[string][]error{"shaky.0": failures()}}
		n := shaky
		in := contract.LaneInput{Node: n, To: 2, Window: 2, Every: 1}
		in.Run, in.Step = "r", "shaky"
		last, histories := follow(t, w, contract.LaneWorkflow, in, nil)
		var out contract.LaneOutput
		if err := last.GetWorkflowResult(&out); err != nil || out.Passed != 2 || histories < 3 {
			t.Errorf("after %d histories: %+v, %v", histories, out, err)
		}
	})
}
