package report

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/store/record"
)

// TestStepOnPoolIsTold: of a step on a pool its outputs are told, its generations, and what they cost; of one that failed, too.
func TestStepOnPoolIsTold(t *testing.T) {
	began := time.Date(2026, 11, 25, 3, 0, 0, 0, time.UTC)
	account, err := json.Marshal(spec.TrainOutput{
		Generations: []spec.Generation{
			{Index: 1, Nodes: 1, End: spec.EndNodeLost, Pool: "gpu", StartedAt: began, EndedAt: began.Add(time.Minute), CostUSD: 0.25},
			{Index: 2, Nodes: 1, End: spec.EndFinished, Pool: "gpu", StartedAt: began.Add(time.Minute), EndedAt: began.Add(2 * time.Minute), CostUSD: 0.5},
		},
		CostUSD:  0.75,
		Outcomes: spec.Outcomes{Useful: spec.Spent{NodeSeconds: 60}, Lost: spec.Spent{NodeSeconds: 60}},
	})
	if err != nil {
		t.Fatal(err)
	}
	step := record.StepRecord{
		Step: "score", Kind: spec.KindEvaluate, Status: spec.StatusSucceeded, StartedAt: began, EndedAt: began.Add(2 * time.Minute),
		Outputs: json.RawMessage(`{"metrics": {"f1": 0.75}}`), Account: account,
	}
	if diff := cmp.Diff("f1 0.75 · 2 generations", Brief(step)); diff != "" {
		t.Errorf("in brief (-want +got):\n%s", diff)
	}
	data := Data{Run: record.RunRecord{StartedAt: began, EndedAt: step.EndedAt}, Steps: []record.StepRecord{step}, Now: step.EndedAt}
	if bars := bars(step, data, scale{high: 120, to: 100}); len(bars) != 3 || !strings.Contains(bars[1].Title, "node lost") {
		t.Errorf("bars of the timeline: %+v, want that of the step and of two generations", bars)
	}
	told := newSection(data, step)
	if told == nil || told.Train == nil || len(told.Train.Generations) != 2 || len(told.Train.Spent) != 4 || len(told.Values) != 1 {
		t.Errorf("the section tells %+v", told)
	}
	for _, unwanted := range []string{"steps lost", "from step"} {
		if page := render(t, data); strings.Contains(page, unwanted) {
			t.Errorf("the page tells %q of a step without steps", unwanted)
		}
	}
	step.Status, step.Outputs = spec.StatusFailed, nil
	if told := newSection(data, step); told == nil || told.Train == nil {
		t.Errorf("the section of a failure tells %+v", told)
	}
}
