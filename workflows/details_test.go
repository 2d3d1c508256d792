package workflows

import (
	"strings"
	"testing"
	"time"

	"github.com/sluiceml/sluice/activities/contract"
	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/workflows/durable"
)

func TestDetails(t *testing.T) {
	noon := time.Date(2026, 3, 14, 12, 0, 0, 0, time.UTC)
	r := &run{
		in: contract.RunInput{Name: "spam", Run: "spam-1", Graph: []spec.Node{{ID: "mail"}, {ID: "fit"}, {ID: "score"}, {ID: "tidy", Section: spec.SectionFinally}}},
		RunContinuation: contract.RunContinuation{Steps: []contract.StepState{
			{ID: "mail", Kind: spec.KindRun, Status: spec.StatusSucceeded, StartedAt: noon, EndedAt: noon.Add(time.Second), Summary: "a|b\nc"},
			{ID: "fit", Kind: spec.KindTrain, Status: spec.StatusRunning, StartedAt: noon, Of: 40, Done: 12, Summary: "1 failed"},
			{ID: "score", Kind: spec.KindRun, Status: spec.StatusSucceeded, StartedAt: noon, EndedAt: noon.Add(time.Second), Of: 3, Done: 1, Summary: "3 of 3 passed"},
			{ID: "tidy", Kind: spec.KindRun, Status: spec.StatusPending},
		}},
	}
	got := strings.ReplaceAll(r.details(spec.StatusRunning), string(durable.Space), "")
	for _, want := range []string{
		"**spam** run `spam-1`: running\n", `| mail| run| succeeded| 1s| a\|b |`, "| fit| train| running| since 2026-03-14 12:00:00 UTC| 12 of 40 ended, 1 failed |",
		"| score| run| succeeded| 1s| 3 of 3 passed |", "| tidy (finally)| run| pending| |  |",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
}
