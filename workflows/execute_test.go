package workflows

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.temporal.io/sdk/activity"

	"github.com/sluiceml/sluice/activities/contract"
	"github.com/sluiceml/sluice/dsl"
)

// What a child run costs is the parent's to pay, however the child ended.
func TestChildRunsCost(t *testing.T) {
	for _, tt := range []struct {
		name  string
		child []dsl.Node
		ends  map[string][]error
		as    dsl.Status
		error string
	}{
		{"succeeds", []dsl.Node{node("paid")}, nil, dsl.StatusSucceeded, ""},
		{"fails", []dsl.Node{node("paid"), node("bad", "paid", "passed")}, map[string][]error{"bad": {userError()}}, dsl.StatusFailed, "bad: exit code 1"},
		{"is late", []dsl.Node{node("paid"), node("held", "paid", "passed")}, nil, dsl.StatusFailed, "it took longer than its timeout of 1h"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := &world{
				ends: tt.ends, costs: map[string]float64{"paid": 3}, holds: map[string]contract.ApprovalInput{"held": {}}, descends: tt.child,
			}
			env := w.environment(t)
			parent := dsl.Node{ID: "sub", Kind: dsl.KindPipeline, Timeout: dsl.Duration(time.Hour)}
			env.ExecuteWorkflow(contract.PipelineWorkflow, contract.RunInput{Run: "r", Name: "p", Graph: []dsl.Node{parent}})
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
	sub.Kind, forgiven.Kind, forgiven.ContinueOnError = dsl.KindPipeline, dsl.KindPipeline, true
	graph := func(sub dsl.Node) []dsl.Node {
		return []dsl.Node{
			sub, node("next", "sub", "passed"), node("rescue", "sub", "failed"),
			in(dsl.SectionOnFailure, node("page")), in(dsl.SectionFinally, node("tidy")),
		}
	}
	for _, tt := range []struct {
		name  string
		sub   dsl.Node
		child dsl.Status
		want  map[string]dsl.Status
		run   contract.RunOutput
	}{
		{
			"canceled", sub, dsl.StatusCanceled,
			map[string]dsl.Status{"sub": "failed", "next": "upstream", "rescue": "succeeded", "page": "succeeded", "tidy": "succeeded"},
			contract.RunOutput{Status: dsl.StatusFailed, Error: "sub: it was canceled while its run went on", ErrorType: contract.ErrCanceled},
		},
		{
			"canceled and forgiven", forgiven, dsl.StatusCanceled,
			map[string]dsl.Status{"sub": "failed", "next": "skipped", "rescue": "succeeded", "page": "skipped", "tidy": "succeeded"},
			contract.RunOutput{Status: dsl.StatusSucceeded},
		},
		{
			"turned away", sub, dsl.StatusSkipped,
			map[string]dsl.Status{"sub": "skipped", "next": "skipped", "rescue": "skipped", "page": "skipped", "tidy": "succeeded"},
			contract.RunOutput{Status: dsl.StatusSkipped, Error: "sub: run x holds the group `g`"},
		},
		{
			"turned away and forgiven", forgiven, dsl.StatusSkipped,
			map[string]dsl.Status{"sub": "skipped", "next": "skipped", "rescue": "skipped", "page": "skipped", "tidy": "succeeded"},
			contract.RunOutput{Status: dsl.StatusSucceeded},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := &world{children: map[string]dsl.Status{"r.sub": tt.child}}
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
			env.RegisterActivityWithOptions(func(_ context.Context, in contract.BeginInput) (contract.Begun, error) {
				if in.Run == "c" {
					return contract.Begun{BudgetUSD: own}, nil
				}
				return contract.Begun{BudgetUSD: 5}, nil
			}, activity.RegisterOptions{Name: contract.BeginActivity, DisableAlreadyRegisteredCheck: true})
			var asked float64
			env.RegisterActivityWithOptions(func(_ context.Context, in contract.ChildInput) (contract.RunInput, error) {
				asked = in.BudgetUSD
				return contract.RunInput{Run: "c", Name: "child", Graph: []dsl.Node{node("paid"), node("then", "paid", "passed")}, BudgetUSD: in.BudgetUSD}, nil
			}, activity.RegisterOptions{Name: contract.ChildActivity, DisableAlreadyRegisteredCheck: true})
			parent := node("sub", "before", "passed")
			parent.Kind = dsl.KindPipeline
			env.ExecuteWorkflow(contract.PipelineWorkflow, contract.RunInput{Run: "r", Name: "p", Graph: []dsl.Node{node("before"), parent}})
			if end := w.judged["sub"]; asked != 3 || end.Status != dsl.StatusFailed || end.ErrorType != contract.ErrBudget {
				t.Errorf("of $5, with $2 spent, the child got $%v, and ended as %s (%s): %s", asked, end.Status, end.ErrorType, end.Error)
			}
			if end := w.judged["then"]; end.Status == dsl.StatusSucceeded {
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
		return contract.RunInput{Run: "c", Name: "child", Graph: []dsl.Node{}, Carried: &contract.RunCarried{CostUSD: 1, CostUnknown: true}}, nil
	}, activity.RegisterOptions{Name: contract.ChildActivity, DisableAlreadyRegisteredCheck: true})
	env.ExecuteWorkflow(contract.PipelineWorkflow, contract.RunInput{Run: "r", Name: "p", Graph: []dsl.Node{{ID: "sub", Kind: dsl.KindPipeline}}})
	if end := w.judged["sub"]; !end.CostUnknown || end.CostUSD != 1 {
		t.Errorf("the step ended as %s at $%v, unknown %v", end.Status, end.CostUSD, end.CostUnknown)
	}
}
