package view

import (
	"errors"
	"io"
	"testing"
	"time"

	"github.com/sluiceml/sluice/activities/contract"
	"github.com/sluiceml/sluice/dsl/spec"
)

func TestTriggers(t *testing.T) {
	local := time.Local
	time.Local = time.UTC
	defer func() { time.Local = local }()
	noon := time.Date(2026, 3, 14, 12, 0, 0, 0, time.UTC)
	at := noon.Add
	failed := contract.TriggerRun{Run: "spam-nightly-20260314T030000Z", At: at(-9 * time.Hour), Status: spec.StatusFailed, Error: "score: gate\nmore"}
	triggers := []contract.Trigger{{
		Name: "spam/nightly", Kind: "schedule", Next: []time.Time{at(15 * time.Hour), at(39 * time.Hour)}, Skipped: 1,
		Spec: spec.Trigger{
			Schedule: &spec.ScheduleTrigger{Cron: []string{"0 3 * * *", "0 4 * * 6"}, Timezone: "Europe/Berlin"},
			Params:   map[string]any{"epochs": 8.0},
		},
		Runs: []contract.TriggerRun{failed, {Run: "spam-nightly-20260313T030000Z", At: at(-33 * time.Hour), Status: spec.StatusSucceeded}},
	}, {
		Name: "spam/inbox", Kind: "data", Paused: true, Note: "the disk moves", Spec: spec.Trigger{Data: &spec.DataTrigger{URL: "file:///in"}},
		Look: &contract.TriggerLook{At: at(-time.Minute), Saw: "3 objects, 0 new, 1 not settled yet"},
	}, {
		Name: "spam/drift", Kind: "metric", Next: []time.Time{at(-time.Hour)}, Spec: spec.Trigger{Metric: &spec.MetricTrigger{Query: "up"}},
		Look: &contract.TriggerLook{At: at(-time.Minute), Error: "query `up` at http://127.0.0.1:9090: connection refused"},
	}}
	golden(t, "triggers", func(w io.Writer) error {
		err := Theme{}.Triggers(w, triggers, noon)
		for _, tr := range triggers {
			err = errors.Join(err, Theme{}.Trigger(w, tr))
		}
		return errors.Join(err, Theme{}.Triggers(w, nil, noon))
	})
}

func TestTriggerPlan(t *testing.T) {
	golden(t, "triggerplan", func(w io.Writer) error {
		return Theme{}.TriggerPlan(w, []contract.TriggerChange{
			{Trigger: "spam/inbox", Kind: "data", Action: contract.TriggerCreate, Fields: []contract.FieldChange{
				{Field: "kind", New: "data"}, {Field: "url", New: "file:///in"},
			}},
			{Trigger: "spam/nightly", Kind: "schedule", Action: contract.TriggerUpdate, Fields: []contract.FieldChange{
				{Field: "cron", Old: `["0 3 * * *"]`, New: `["0 4 * * *"]`}, {Field: "jitter", Old: "5m"},
			}},
			{Trigger: "spam/old", Kind: "metric", Action: contract.TriggerDelete},
			{Trigger: "spam/weekly", Kind: "schedule", Action: contract.TriggerKeep},
		})
	})
}
