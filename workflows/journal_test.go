package workflows

import (
	"slices"
	"strings"
	"testing"

	"github.com/sluiceml/sluice/activities/contract"
	"github.com/sluiceml/sluice/dsl/spec"
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
