package workflows

import (
	"context"
	"testing"
	"time"

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
			w := &world{ends: tt.ends, costs: map[string]float64{"paid": 3}, holds: map[string]contract.ApprovalInput{"held": {}}}
			env := w.environment(t)
			env.RegisterActivityWithOptions(func(context.Context, contract.ChildInput) (contract.RunInput, error) {
				return contract.RunInput{Run: "c", Name: "child", Graph: tt.child}, nil
			}, activity.RegisterOptions{Name: contract.ChildActivity})
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
