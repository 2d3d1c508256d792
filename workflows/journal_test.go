package workflows

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.temporal.io/sdk/workflow"

	"github.com/sluiceml/sluice/activities/contract"
	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/store/record"
)

// A run whose records could be lost has not succeeded, and goes on in no history that would stand on them.
func TestRunFailsWithoutDurableRecords(t *testing.T) {
	fanned := func(n spec.Node) spec.Node {
		n.Fan, n.Require = spec.FanForeach, 1
		return n
	}
	for name, graph := range map[string][]spec.Node{
		"at the end":       {node("a")},
		"between sections": {node("a"), in(spec.SectionFinally, node("z"))},
		"long history":     big(),
		"instances":        {fanned(node("a"))},
		"before instances": {node("b"), fanned(node("a", "b", "passed"))},
	} {
		t.Run(name, func(t *testing.T) {
			w := &world{full: true, of: map[string]int{"a": 3}}
			last, histories := follow[contract.RunInput](t, w, contract.PipelineWorkflow, contract.RunInput{Run: "r", Name: "p", Graph: graph}, nil)
			err := last.GetWorkflowError()
			if err == nil || !strings.Contains(err.Error(), "no space left on device") || w.finished.Status != spec.StatusFailed {
				t.Errorf("the run ended as %+v, %v", w.finished, err)
			}
			after := 0
			for _, n := range graph {
				if n.Section == spec.SectionFinally && slices.Contains(w.started, n.ID) {
					after++
				}
			}
			if want := len(slices.DeleteFunc(slices.Clone(graph), func(n spec.Node) bool { return n.Section != spec.SectionFinally })); after != want {
				t.Errorf("%d of %d steps of finally were done", after, want)
			}
			if histories > 1 {
				t.Errorf("there were %d histories", histories)
			}
		})
	}
}

// Steps that end while records are made durable are not taken for durable with them, also when several wait for that at once.
func TestEndsDuringASync(t *testing.T) {
	end := func(step string) contract.StepEnd { return contract.StepEnd{StepRef: record.StepRef{Step: step}} }
	for _, both := range []bool{false, true} {
		env := (&world{}).environment(t)
		synced := func(ctx workflow.Context) (left []string, err error) {
			l := &journal{run: "r"}
			l.add(end("a"), true)
			over := workflow.NewBufferedChannel(ctx, 1)
			workflow.Go(ctx, func(ctx workflow.Context) {
				l.add(end("b"), true)
				if both {
					err = l.sync(ctx)
				}
				l.add(end("c"), true)
				over.Send(ctx, nil)
			})
			if err := l.sync(ctx); err != nil {
				return nil, err
			}
			over.Receive(ctx, nil)
			for _, e := range l.ends {
				left = append(left, e.Step)
			}
			return left, err
		}
		env.RegisterWorkflow(synced)
		env.ExecuteWorkflow(synced)
		var left []string
		if err := env.GetWorkflowResult(&left); err != nil {
			t.Fatal(err)
		}
		want := []string{"b", "c"}
		if both {
			want = []string{"c"}
		}
		if diff := cmp.Diff(want, left); diff != "" {
			t.Errorf("not durable yet, of two that sync %t (-want +got):\n%s", both, diff)
		}
	}
}
