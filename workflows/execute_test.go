package workflows

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/temporal"

	"github.com/sluiceml/sluice/activities/contract"
	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/fault"
	"github.com/sluiceml/sluice/store/record"
)

// What a child run costs is the parent's to pay, however the child ended.
func TestChildRunsCost(t *testing.T) {
	for _, tt := range []struct {
		name  string
		child []spec.Node
		ends  map[string][]error
		as    spec.Status
		error string
	}{
		{"succeeds", []spec.Node{node("paid")}, nil, spec.StatusSucceeded, ""},
		{"fails", []spec.Node{node("paid"), node("bad", "paid", "passed")}, map[string][]error{"bad": {userError()}}, spec.StatusFailed, "bad: exit code 1"},
		{"is late", []spec.Node{node("paid"), node("held", "paid", "passed")}, nil, spec.StatusFailed, "it took longer than its timeout of 1h"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := &world{
				ends: tt.ends, costs: map[string]float64{"paid": 3}, holds: map[string]contract.ApprovalInput{"held": {}}, descends: tt.child,
			}
			env := w.environment(t)
			parent := spec.Node{ID: "sub", Kind: spec.KindPipeline, Timeout: spec.Duration(time.Hour)}
			env.ExecuteWorkflow(contract.PipelineWorkflow, contract.RunInput{Run: "r", Name: "p", Graph: []spec.Node{parent}})
			end := w.judged["sub"]
			if end.Status != tt.as || end.Error != tt.error || end.CostUSD != 3 {
				t.Errorf("the step ended as %s at $%v: %s", end.Status, end.CostUSD, end.Error)
			}
			if !end.Output.IsZero() {
				t.Errorf("its outputs are %s", end.Output.Outputs)
			}
		})
	}
}

// TestChildWithoutSuccess: a child that was canceled by itself, by a person or by another run of its group, has failed; one that was turned
// away is skipped, and so is its run. Neither passes.
func TestChildWithoutSuccess(t *testing.T) {
	sub, forgiven := node("sub"), node("sub")
	sub.Kind, forgiven.Kind, forgiven.ContinueOnError = spec.KindPipeline, spec.KindPipeline, true
	graph := func(sub spec.Node) []spec.Node {
		return []spec.Node{
			sub, node("next", "sub", "passed"), node("rescue", "sub", "failed"),
			in(spec.SectionOnFailure, node("page")), in(spec.SectionFinally, node("tidy")),
		}
	}
	for _, tt := range []struct {
		name  string
		sub   spec.Node
		child spec.Status
		want  map[string]spec.Status
		run   record.RunOutput
	}{
		{
			"canceled", sub, spec.StatusCanceled,
			map[string]spec.Status{"sub": "failed", "next": "upstream", "rescue": "succeeded", "page": "succeeded", "tidy": "succeeded"},
			record.RunOutput{Status: spec.StatusFailed, Error: "sub: it was canceled, but its run was not", ErrorType: fault.Canceled},
		},
		{
			"canceled and forgiven", forgiven, spec.StatusCanceled,
			map[string]spec.Status{"sub": "failed", "next": "skipped", "rescue": "succeeded", "page": "skipped", "tidy": "succeeded"},
			record.RunOutput{Status: spec.StatusSucceeded},
		},
		{
			"turned away", sub, spec.StatusSkipped,
			map[string]spec.Status{"sub": "skipped", "next": "skipped", "rescue": "skipped", "page": "skipped", "tidy": "succeeded"},
			record.RunOutput{Status: spec.StatusSkipped, Error: "sub: run x holds the group `g`"},
		},
		{
			"turned away and forgiven", forgiven, spec.StatusSkipped,
			map[string]spec.Status{"sub": "skipped", "next": "skipped", "rescue": "skipped", "page": "skipped", "tidy": "succeeded"},
			record.RunOutput{Status: spec.StatusSucceeded},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := &world{children: map[string]spec.Status{"r.sub": tt.child}}
			got, run := w.statuses(t, graph(tt.sub))
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("steps (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tt.run, run); diff != "" {
				t.Errorf("run (-want +got):\n%s", diff)
			}
		})
	}
}

// What is left of a run's budget binds its child, whatever the child says of its own, and its attempts together.
func TestChildRunsKeepTheParentsBudget(t *testing.T) {
	for name, own := range map[string]float64{"a child without one": 0, "a child with a larger one": 40} {
		t.Run(name, func(t *testing.T) {
			w := &world{costs: map[string]float64{"before": 2, "paid": 3}}
			env := w.environment(t)
			env.RegisterActivityWithOptions(func(_ context.Context, in contract.BeginInput) (contract.BeginOutput, error) {
				if in.Run == "c" {
					return contract.BeginOutput{BudgetUSD: own}, nil
				}
				return contract.BeginOutput{BudgetUSD: 5}, nil
			}, activity.RegisterOptions{Name: contract.BeginActivity, DisableAlreadyRegisteredCheck: true})
			var asked float64
			env.RegisterActivityWithOptions(func(_ context.Context, in contract.ChildInput) (contract.RunInput, error) {
				asked = in.BudgetUSD
				return contract.RunInput{Run: "c", Name: "child", Graph: []spec.Node{node("paid"), node("then", "paid", "passed")}, BudgetUSD: in.BudgetUSD}, nil
			}, activity.RegisterOptions{Name: contract.ChildActivity, DisableAlreadyRegisteredCheck: true})
			parent := node("sub", "before", "passed")
			parent.Kind = spec.KindPipeline
			env.ExecuteWorkflow(contract.PipelineWorkflow, contract.RunInput{Run: "r", Name: "p", Graph: []spec.Node{node("before"), parent}})
			if end := w.judged["sub"]; asked != 3 || end.Status != spec.StatusFailed || end.ErrorType != fault.Budget {
				t.Errorf("of $5, with $2 spent, the child got $%v, and ended as %s (%s): %s", asked, end.Status, end.ErrorType, end.Error)
			}
			if end := w.judged["then"]; end.Status == spec.StatusSucceeded {
				t.Error("the child went on beyond the budget")
			}
		})
	}
}

// A child of unknown cost makes that of its parent unknown, and what follows is told so.
func TestChildRunsOfUnknownCost(t *testing.T) {
	w := &world{}
	env := w.environment(t)
	env.RegisterActivityWithOptions(func(context.Context, contract.ChildInput) (contract.RunInput, error) {
		return contract.RunInput{Run: "c", Name: "child", Graph: []spec.Node{}, Continuation: &contract.RunContinuation{CostUSD: 1, CostUnknown: true}}, nil
	}, activity.RegisterOptions{Name: contract.ChildActivity, DisableAlreadyRegisteredCheck: true})
	env.ExecuteWorkflow(contract.PipelineWorkflow, contract.RunInput{Run: "r", Name: "p", Graph: []spec.Node{{ID: "sub", Kind: spec.KindPipeline}}})
	if end := w.judged["sub"]; !end.CostUnknown || end.CostUSD != 1 {
		t.Errorf("the step ended as %s at $%v, unknown %v", end.Status, end.CostUSD, end.CostUnknown)
	}
}

// TestATrainingIsNotBegunAgain: it goes on by itself as long as that is possible, and knows what it has cost.
func TestATrainingIsNotBegunAgain(t *testing.T) {
	w := &world{outcomes: map[string]outcome{"fit": {err: temporal.NewHeartbeatTimeoutError()}}}
	fit := node("fit")
	fit.Kind, fit.Retry = spec.KindTrain, spec.Retry{Attempts: 3}.WithDefaults()
	got, _ := w.statuses(t, []spec.Node{fit})
	if n := len(w.judged["fit"].Attempts); got["fit"] != spec.StatusFailed || n != 1 {
		t.Errorf("it ended as %s after %d attempts, want one", got["fit"], n)
	}
}
