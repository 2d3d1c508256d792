package schedule

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/client"

	"github.com/sluiceml/sluice/activities/contract"
	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/fault"
)

func nightly(cron string) spec.Trigger {
	return spec.Trigger{Schedule: &spec.ScheduleTrigger{Cron: []string{cron}, Timezone: "UTC"}}
}

func must(t *testing.T, name string, spec spec.Trigger, submission string) Declared {
	t.Helper()
	d, err := Declare(name, spec, contract.RunInput{Name: "spam", Submission: submission})
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func TestPlan(t *testing.T) {
	applied := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	on := func(d Declared) mark {
		m := d.mark
		m.Since = applied
		return m
	}
	three := must(t, "nightly", nightly("0 3 * * *"), "sha256:a")
	four := must(t, "nightly", nightly("0 4 * * *"), "sha256:a")
	edited := must(t, "nightly", nightly("0 3 * * *"), "sha256:b")
	withParams := nightly("0 3 * * *")
	withParams.Params = map[string]any{"epochs": 8.0}
	inbox := must(t, "inbox", spec.Trigger{Data: &spec.DataTrigger{URL: "file:///in"}}, "sha256:a")
	form := on(three)
	form.Digest = "of another version"

	tests := []struct {
		name  string
		want  []Declared
		found []mark
		plan  []contract.TriggerChange
	}{
		{"nothing at all", nil, nil, nil},
		{"new", []Declared{three}, nil, []contract.TriggerChange{{
			Trigger: "spam/nightly", Kind: "schedule", Action: contract.TriggerCreate, Fields: []contract.FieldChange{
				{Field: "cron", New: `["0 3 * * *"]`}, {Field: "kind", New: "schedule"}, {Field: "submission", New: "a"}, {Field: "timezone", New: "UTC"},
			},
		}}},
		{"the same", []Declared{three}, []mark{on(three)}, []contract.TriggerChange{{Trigger: "spam/nightly", Kind: "schedule", Action: contract.TriggerKeep}}},
		{"another time", []Declared{four}, []mark{on(three)}, []contract.TriggerChange{{
			Trigger: "spam/nightly", Kind: "schedule", Action: contract.TriggerUpdate, Fields: []contract.FieldChange{{Field: "cron", Old: `["0 3 * * *"]`, New: `["0 4 * * *"]`}},
		}}},
		{"another pipeline", []Declared{edited}, []mark{on(three)}, []contract.TriggerChange{{
			Trigger: "spam/nightly", Kind: "schedule", Action: contract.TriggerUpdate, Fields: []contract.FieldChange{{Field: "submission", Old: "a", New: "b"}},
		}}},
		{"a parameter more", []Declared{must(t, "nightly", withParams, "sha256:a")}, []mark{on(three)}, []contract.TriggerChange{{
			Trigger: "spam/nightly", Kind: "schedule", Action: contract.TriggerUpdate, Fields: []contract.FieldChange{{Field: "params.epochs", New: "8"}},
		}}},
		{"made by another version", []Declared{three}, []mark{form}, []contract.TriggerChange{{
			Trigger: "spam/nightly", Kind: "schedule", Action: contract.TriggerUpdate,
			Fields: []contract.FieldChange{{Field: "form", Old: "of another version of Sluice", New: "of this one"}},
		}}},
		{"another kind under the name", []Declared{must(t, "nightly", inbox.Spec, "sha256:a")}, []mark{on(three)}, []contract.TriggerChange{{
			Trigger: "spam/nightly", Kind: "data", Action: contract.TriggerUpdate, Fields: []contract.FieldChange{
				{Field: "cron", Old: `["0 3 * * *"]`}, {Field: "kind", Old: "schedule", New: "data"}, {Field: "timezone", Old: "UTC"}, {Field: "url", New: "file:///in"},
			},
		}}},
		{"no longer declared", []Declared{three}, []mark{on(inbox), on(three)}, []contract.TriggerChange{
			{Trigger: "spam/nightly", Kind: "schedule", Action: contract.TriggerKeep}, {Trigger: "spam/inbox", Kind: "data", Action: contract.TriggerDelete},
		}},
		{"none declared any more", nil, []mark{on(three)}, []contract.TriggerChange{{Trigger: "spam/nightly", Kind: "schedule", Action: contract.TriggerDelete}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			plan, err := newPlan("spam", tt.want, tt.found)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.plan, plan.Changes, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			idle := true
			for _, c := range plan.Changes {
				idle = idle && c.Action == contract.TriggerKeep
				if since := plan.want[c.Trigger].Since; c.Action == contract.TriggerUpdate && !since.Equal(applied) {
					t.Errorf("an update forgets since when %s is there: %v", c.Trigger, since)
				}
			}
			if plan.Empty() != idle {
				t.Errorf("empty is %v", plan.Empty())
			}
		})
	}
}

func TestSpec(t *testing.T) {
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	minute := func(d time.Duration) spec.Duration { return spec.Duration(d) }
	watch := client.ScheduleSpec{Intervals: []client.ScheduleIntervalSpec{{Every: 5 * time.Minute}}}
	looks := client.SchedulePolicies{Overlap: enums.SCHEDULE_OVERLAP_POLICY_SKIP, CatchupWindow: 10 * time.Second}
	tests := []struct {
		name   string
		spec   spec.Trigger
		want   client.ScheduleSpec
		policy client.SchedulePolicies
		id     string
	}{
		{
			"cron of five fields",
			spec.Trigger{Schedule: &spec.ScheduleTrigger{
				Cron: []string{"0 3 * * 1-5"}, Timezone: "Europe/Berlin", Catchup: minute(time.Hour), OnConflict: spec.OnConflictSkip,
			}},
			client.ScheduleSpec{CronExpressions: []string{"0 0 3 * * 1-5 *"}, TimeZoneName: "Europe/Berlin"},
			client.SchedulePolicies{Overlap: enums.SCHEDULE_OVERLAP_POLICY_SKIP, CatchupWindow: time.Hour},
			"run/spam-t",
		},
		{"cron with seconds", spec.Trigger{Schedule: &spec.ScheduleTrigger{
			Cron: []string{"*/5 * * * * *", "@daily"}, Jitter: minute(time.Minute), Start: start, End: start.AddDate(1, 0, 0), OnConflict: spec.OnConflictQueue,
		}}, client.ScheduleSpec{
			CronExpressions: []string{"*/5 * * * * * *", "0 0 0 * * * *"}, Jitter: time.Minute, StartAt: start, EndAt: start.AddDate(1, 0, 0),
		}, client.SchedulePolicies{Overlap: enums.SCHEDULE_OVERLAP_POLICY_BUFFER_ALL}, "run/spam-t"},
		{
			"every so often",
			spec.Trigger{Schedule: &spec.ScheduleTrigger{
				Every: minute(time.Hour), Offset: minute(time.Minute), OnConflict: spec.OnConflictCancelOther, PauseOnFailure: true,
			}},
			client.ScheduleSpec{Intervals: []client.ScheduleIntervalSpec{{Every: time.Hour, Offset: time.Minute}}},
			client.SchedulePolicies{Overlap: enums.SCHEDULE_OVERLAP_POLICY_CANCEL_OTHER, PauseOnFailure: true},
			"run/spam-t",
		},
		{
			"data",
			spec.Trigger{Data: &spec.DataTrigger{URL: "file:///in", Every: minute(time.Minute)}},
			watch,
			looks, "watch/spam/t",
		},
		{
			"metric",
			spec.Trigger{Metric: &spec.MetricTrigger{Every: minute(time.Minute)}},
			watch,
			looks, "watch/spam/t",
		},
		{
			"pipeline",
			spec.Trigger{Pipeline: &spec.PipelineTrigger{Name: "clean", Every: minute(time.Second)}},
			watch,
			looks, "watch/spam/t",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			d := must(t, "t", tt.spec, "sha256:a")
			got, err := d.spec()
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, got, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("spec (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tt.policy, d.policy()); diff != "" {
				t.Errorf("policy (-want +got):\n%s", diff)
			}
			if got := d.action().ID; got != tt.id {
				t.Errorf("it starts %s, want %s", got, tt.id)
			}
		})
	}
}

// TestDeclareRefuses: what cannot be watched is refused before it is applied.
func TestDeclareRefuses(t *testing.T) {
	for _, url := range []string{"s3://bucket/in?user=me", "s3:///in", "in", "file://in", "ftp://host/in"} {
		_, err := Declare("inbox", spec.Trigger{Data: &spec.DataTrigger{URL: url}}, contract.RunInput{Name: "spam"})
		if fault.TypeOf(err) != fault.Invalid {
			t.Errorf("%s: got %v", url, err)
		}
	}
	for _, url := range []string{"s3://bucket/in?region=eu-central-1", "file:///in"} {
		if _, err := Declare("inbox", spec.Trigger{Data: &spec.DataTrigger{URL: url}}, contract.RunInput{Name: "spam"}); err != nil {
			t.Errorf("%s: got %v", url, err)
		}
	}
}

func TestSplit(t *testing.T) {
	for id, ok := range map[string]bool{"spam/nightly": true, "spam": false, "/nightly": false, "spam/": false, "a/b/c": false, "": false} {
		pipeline, trigger, err := split(id)
		if (err == nil) != ok || ok && contract.ScheduleID(pipeline, trigger) != id {
			t.Errorf("%q: got %q, %q, %v", id, pipeline, trigger, err)
		}
	}
}
