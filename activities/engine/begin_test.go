package engine

import (
	"strings"
	"testing"
	"time"

	"github.com/sluiceml/sluice/activities/contract"
	"github.com/sluiceml/sluice/internal/fault"
	"github.com/sluiceml/sluice/store/record"
)

// TestBeginOnce: what opens a run's record a second time after its worker was killed finds it, however late; a run whose ID was used, since a
// time was made up for twice, does not touch the record of the first.
func TestBeginOnce(t *testing.T) {
	b := newBench(t, "steps: {a: {run: {command: [\"true\"]}}}\n")
	in := contract.BeginInput{
		RunInput:  contract.RunInput{Run: "p-nightly-20260102T030405Z", Name: "p", Submission: b.submission, Graph: b.program.Graph()},
		Execution: "first", StartedAt: b.began,
	}
	again, other := in, in
	again.StartedAt = b.began.Add(time.Minute)
	other.Execution, other.StartedAt = "second", b.began.Add(time.Hour)
	for _, known := range []contract.BeginInput{in, again} {
		if _, err := b.engine.Begin(t.Context(), known); err != nil {
			t.Error(err)
		}
	}
	if _, err := b.engine.Begin(t.Context(), other); fault.TypeOf(err) != fault.Invalid || !strings.Contains(err.Error(), "sluice rerun") {
		t.Errorf("got %v", err)
	}
	madeUp := other
	madeUp.ScheduledAt = b.began
	if begun, err := b.engine.Begin(t.Context(), madeUp); err != nil || !begun.MadeUp {
		t.Errorf("a time that is made up for once more: %+v, %v", begun, err)
	}
	record, err := record.LoadRun(t.Context(), b.engine.Store, in.Run)
	if err != nil || !record.StartedAt.Equal(b.began) {
		t.Errorf("the record is %+v, %v", record.RunRecord, err)
	}
}
