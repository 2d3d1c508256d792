package dsl

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sluiceml/sluice/dsl/expr"
	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/artifact"
)

func TestCalendars(t *testing.T) {
	s := spec.ScheduleTrigger{Cron: []string{"0 3 * * *", "*/10 0 3 * * mon-fri", "@Weekly", "5\t4  1,15 jan */2"}}
	got, err := s.Calendars()
	want := []string{"0 0 3 * * * *", "*/10 0 3 * * mon-fri *", "0 0 0 * * 0 *", "0 5 4 1,15 jan */2 *"}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("%v\n%s", err, diff)
	}
	if _, err := (&spec.ScheduleTrigger{Cron: []string{"0 25 * * *"}}).Calendars(); err == nil {
		t.Error("an hour of 25 went through")
	}
}

const triggered = `sluice: pipeline/v1
name: p
params: {region: {type: string, default: eu}, n: {type: int, default: 2}}
concurrency: {group: "train-${params.region}-${params.n}"}
triggers:
  worse: {metric: {step: score, output: metrics.f1, condition: value < 0.9, for: 5m}, params: {region: us, n: 3}}
  drift: {metric: {query: up, condition: value > 1}}
notify: {hook: {webhook: {url: "https://example.com"}}}
steps:
  score:
    when: run.trigger.?value.orValue(0.0) < 1.0
    evaluate:
      command: [echo, "${run.trigger.kind}", "${run.trigger.name}", "${run.trigger.files.join(' ')}", "${run.scheduled_at}", "${run.trigger.time}"]
      inputs: {mail: '${datasets["spam-mail"]}'}
      metrics: [f1]
`

func TestTriggers(t *testing.T) {
	p := mustCompile(t, triggered)
	worse := p.Pipeline().Triggers["worse"]
	if diff := cmp.Diff(map[string]string{"region": "us", "n": "3"}, worse.Given()); diff != "" || worse.Kind() != "metric" {
		t.Error(worse.Kind(), diff)
	}
	m := worse.Metric
	if m.Cooldown != spec.Duration(time.Hour) || m.Every != spec.Duration(time.Minute) || m.Prometheus != "" {
		t.Errorf("%+v", m)
	}
	if got := p.Pipeline().Triggers["drift"].Metric.Prometheus; got != spec.DefaultPrometheus {
		t.Errorf("a query without a server asks %q", got)
	}
	if diff := cmp.Diff([]string{"fail", "hold", "rollback"}, p.Pipeline().Notify["hook"].On); diff != "" {
		t.Error(diff)
	}
	steps := func(status spec.Status, outputs string) map[string]spec.StepResult {
		return map[string]spec.StepResult{"score": {Status: status, Outputs: json.RawMessage(outputs)}}
	}
	for _, tt := range []struct {
		name  string
		steps map[string]spec.StepResult
		value float64
		ok    bool
	}{
		{"there", steps(spec.StatusSucceeded, `{"metrics":{"f1":0.8}}`), 0.8, true},
		{"failed", steps(spec.StatusFailed, `{"metrics":{"f1":0.8}}`), 0, false},
		{"null", steps(spec.StatusSucceeded, `{"metrics":{"f1":null}}`), 0, false},
		{"text", steps(spec.StatusSucceeded, `{"metrics":{"f1":"0.8"}}`), 0, false},
		{"absent", steps(spec.StatusSucceeded, `{"metrics":{}}`), 0, false},
		{"no run", nil, 0, false},
	} {
		if v, ok := m.Last(tt.steps); v != tt.value || ok != tt.ok {
			t.Errorf("%s: %v, %v", tt.name, v, ok)
		}
	}
	for value, want := range map[float64]bool{0.8: true, 0.9: false} {
		if got, err := expr.MetricHolds(m.Condition, value); got != want || err != nil {
			t.Errorf("%v: %v, %v", value, got, err)
		}
	}
	if _, err := expr.MetricHolds("valu > 1", 1); err == nil {
		t.Error("a condition over no name holds")
	}
}

func TestConcurrencyGroup(t *testing.T) {
	p := mustCompile(t, triggered)
	for _, tt := range []struct {
		region, want string
		bad          bool
	}{
		{region: "eu", want: "train-eu-2"},
		{region: strings.Repeat("x", maxGroup), bad: true},
	} {
		got, err := p.ConcurrencyGroup(map[string]any{"region": tt.region, "n": int64(2)})
		if got != tt.want || (err != nil) != tt.bad {
			t.Errorf("%q, %v", got, err)
		}
	}
	if got, err := mustCompile(t, chain).ConcurrencyGroup(nil); got != "" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
}

func TestRunFacts(t *testing.T) {
	p := mustCompile(t, triggered)
	began := time.Date(2026, 5, 1, 3, 0, 5, 0, time.UTC)
	mail := artifact.Ref{Type: artifact.Dataset, Digest: "sha256:ab", Bytes: 5, Files: 1}
	tests := []struct {
		name    string
		facts   spec.RunFacts
		run     bool
		command []string
	}{
		{"by hand", spec.RunFacts{StartedAt: began}, true, []string{"echo", "manual", "", "", "2026-05-01T03:00:05Z", "2026-05-01T03:00:05Z"}},
		{
			"data",
			spec.RunFacts{StartedAt: began, Trigger: spec.TriggerFacts{Name: "mail", Kind: "data", Time: began.Add(-time.Second), Files: []string{"a", "b"}}},
			true,
			[]string{"echo", "data", "mail", "a b", "2026-05-01T03:00:05Z", "2026-05-01T03:00:04Z"},
		},
		{
			"schedule",
			spec.RunFacts{StartedAt: began, ScheduledAt: began.Truncate(time.Hour), Trigger: spec.TriggerFacts{Name: "nightly", Kind: "schedule"}},
			true,
			[]string{"echo", "schedule", "nightly", "", "2026-05-01T03:00:00Z", "2026-05-01T03:00:05Z"},
		},
		{"metric", spec.RunFacts{StartedAt: began, Trigger: spec.TriggerFacts{Name: "drift", Kind: "metric", Value: 1.5}}, false, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r, err := p.Resolve("score", spec.Vars{Run: tt.facts, Datasets: map[string]artifact.Ref{"spam-mail": mail}})
			if err != nil || r.Run != tt.run {
				t.Fatalf("%+v, %v", r, err)
			}
			if !r.Run {
				return
			}
			got, err := spec.Decode[spec.Evaluate](r.Spec)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.command, got.Command.Command); diff != "" {
				t.Error(diff)
			}
			if diff := cmp.Diff(mail, got.Inputs["mail"]); diff != "" {
				t.Error(diff)
			}
		})
	}
	_, err := p.Resolve("score", spec.Vars{Run: spec.RunFacts{StartedAt: began}})
	if err == nil || !strings.Contains(err.Error(), "there is no published dataset `spam-mail`") {
		t.Errorf("a dataset that is not there: %v", err)
	}
	p = mustCompile(t, strings.Replace(triggered, `"spam-mail"`, `"spam-mail@golden"`, 1))
	_, err = p.Resolve("score", spec.Vars{Run: spec.RunFacts{StartedAt: began}, Datasets: map[string]artifact.Ref{"spam-mail": mail}})
	if err == nil || !strings.Contains(err.Error(), "there is no published dataset `spam-mail@golden`") {
		t.Errorf("a tag that is not there: %v", err)
	}
}
