package engine

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sluiceml/sluice/activities/contract"
	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/fault"
	"github.com/sluiceml/sluice/store"
	"github.com/sluiceml/sluice/store/record"
)

// TestHandBack: a run that gave way to another returns what its trigger handed to it, and no other run does.
func TestHandBack(t *testing.T) {
	data := spec.TriggerFacts{Name: "inbox", Kind: "data", Files: []string{"file:///in/a"}}
	by := &record.Returned{By: "other"}
	evicted := &record.Returned{By: "other", Evicted: true}
	for name, tt := range map[string]struct {
		trigger   spec.TriggerFacts
		scheduled bool
		end       record.RunOutput
		child     string // the run that a child of it gave way to
		want      *record.Returned
	}{
		"turned away":        {data, false, record.RunOutput{Status: spec.StatusSkipped, GaveWayTo: "other"}, "", by},
		"its child was":      {data, false, record.RunOutput{Status: spec.StatusSkipped}, "other", by},
		"nobody knows why":   {data, false, record.RunOutput{Status: spec.StatusSkipped}, "", &record.Returned{}},
		"evicted":            {data, false, record.RunOutput{Status: spec.StatusCanceled, ErrorType: fault.Canceled, GaveWayTo: "other"}, "", evicted},
		"its child, too":     {data, false, record.RunOutput{Status: spec.StatusFailed, ErrorType: fault.Canceled}, "other", evicted},
		"by hand":            {data, false, record.RunOutput{Status: spec.StatusCanceled, ErrorType: fault.Canceled}, "", nil},
		"failed":             {data, false, record.RunOutput{Status: spec.StatusFailed, ErrorType: fault.User}, "other", nil},
		"declined":           {data, false, record.RunOutput{Status: spec.StatusDeclined, ErrorType: fault.Gate}, "", nil},
		"succeeded":          {data, false, record.RunOutput{Status: spec.StatusSucceeded}, "", nil},
		"a schedule":         {spec.TriggerFacts{Name: "nightly", Kind: "schedule"}, true, record.RunOutput{Status: spec.StatusSkipped, GaveWayTo: "other"}, "", nil},
		"no trigger started": {spec.TriggerFacts{}, false, record.RunOutput{Status: spec.StatusSkipped, GaveWayTo: "other"}, "", nil},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, "steps: {one: {run: {command: [one]}}}\n")
			in := contract.RunInput{Run: "r", Name: "p", Submission: b.submission, Graph: b.program.Graph(), Trigger: tt.trigger}
			in.Trigger.Time = b.began
			if tt.scheduled {
				in.ScheduledAt = b.began
			}
			if _, err := b.engine.Begin(t.Context(), contract.BeginInput{RunInput: in, StartedAt: b.began}); err != nil {
				t.Fatal(err)
			}
			child := record.RunRecord{Run: "r.one", GaveWayTo: tt.child}
			if err := b.engine.Store.PutJSON(t.Context(), record.RunKey(child.Run), child, store.WriteOptions{}); err != nil {
				t.Fatal(err)
			}
			finish := contract.FinishInput{Run: "r", Submission: b.submission, EndedAt: b.began, RunOutput: tt.end}
			if _, err := b.engine.Finish(t.Context(), finish); err != nil {
				t.Fatal(err)
			}
			got, err := store.RecordsIn[record.Returned](t.Context(), b.engine.Store, store.TriggersPrefix, nil)
			if err != nil {
				t.Fatal(err)
			}
			var want []record.Returned
			if tt.want != nil {
				tt.want.At = b.began
				want = []record.Returned{*tt.want}
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
