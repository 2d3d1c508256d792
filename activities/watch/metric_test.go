package watch

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/store"
	"github.com/sluiceml/sluice/store/record"
)

// TestMetric: the condition must hold for its time without a break, and starts are the cooldown apart.
func TestMetric(t *testing.T) {
	spec := spec.MetricTrigger{Condition: "value > 0.2", For: 3 * minute, Cooldown: 10 * minute, Every: minute}
	high, low := new(float64), new(float64)
	*high = 0.5
	type look struct {
		after time.Duration // since the first
		value *float64
		due   bool
	}
	tests := []struct {
		name  string
		looks []look
	}{
		{"held for long enough", []look{{0, high, false}, {time.Minute, high, false}, {2 * time.Minute, high, false}, {3 * time.Minute, high, true}}},
		{"a break", []look{{0, high, false}, {time.Minute, low, false}, {2 * time.Minute, high, false}, {4 * time.Minute, high, false}, {5 * time.Minute, high, true}}},
		{"a look without a number", []look{{0, high, false}, {2 * time.Minute, nil, false}, {3 * time.Minute, high, false}, {6 * time.Minute, high, true}}},
		{"nobody looked for a while", []look{{0, high, false}, {time.Hour, high, false}, {time.Hour + 3*time.Minute, high, true}}},
		{"cooling down", []look{
			{0, high, false},
			{3 * time.Minute, high, true},
			{4 * time.Minute, high, false},
			{7 * time.Minute, high, false},
			{10 * time.Minute, high, false},
			{12 * time.Minute, high, false},
			{13 * time.Minute, high, true},
		}},
		{"never", []look{{0, low, false}, {3 * time.Minute, low, false}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var state State
			causes := map[string]bool{}
			for _, look := range tt.looks {
				now := began.Add(look.after)
				cause, err := state.metric(spec, look.value, state.LookedAt, now)
				if err != nil {
					t.Fatal(err)
				}
				if (cause != nil) != look.due {
					t.Errorf("after %s due is %v: %s", look.after, cause != nil, state.Saw)
				}
				if cause != nil {
					if causes[cause.is] || cause.facts.Value != *high {
						t.Errorf("after %s the cause is %+v, and was there before: %v", look.after, cause, causes[cause.is])
					}
					causes[cause.is], state.FiredAt = true, now
				}
				state.LookedAt = now
			}
		})
	}
}

// TestMetricCooldown: whatever is measured, starts are at least the cooldown apart, and wherever a look is cut off, a decision that was
// made once is the same when it is asked for again.
func TestMetricCooldown(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := watch(t, spec.Trigger{Metric: &spec.MetricTrigger{
			Step: "score", Output: "metrics.psi", Condition: "value > 0.2", For: 2 * minute, Cooldown: 5 * minute, Every: minute,
		}})
		for i := range rapid.IntRange(1, 30).Draw(t, "looks") {
			measure(t, w, fmt.Sprintf("spam-%d", i), rapid.SampledFrom([]string{"0.1", "0.3"}).Draw(t, "psi"))
			w.look(t, rapid.IntRange(1, 3).Draw(t, "strokes"))
			w.look(t, 3)
			w.now = w.now.Add(time.Minute)
		}
		for i := 1; i < len(w.started); i++ {
			if apart := w.started[i].Trigger.Time.Sub(w.started[i-1].Trigger.Time); apart < 5*time.Minute {
				t.Fatalf("two starts are %s apart: %+v", apart, w.started)
			}
		}
	})
}

// measure makes an accepted run of the watched pipeline with an output.
func measure(t TB, w *watcher, run, psi string) {
	t.Helper()
	ctx := context.Background()
	step := record.StepRecord{Step: "score", Status: spec.StatusSucceeded, Outputs: json.RawMessage(`{"metrics":{"psi":` + psi + `}}`)}
	if err := w.Store.PutJSON(ctx, record.StepKey(run, "score"), step, store.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := record.Accept(ctx, w.Store, record.RunRecord{Run: run, Pipeline: "spam", EndedAt: w.now}); err != nil {
		t.Fatal(err)
	}
}

// TestMetricOfLast: the number is an output of the last accepted run; without one nothing is due.
func TestMetricOfLast(t *testing.T) {
	sp := spec.MetricTrigger{Step: "score", Output: "metrics.psi", Condition: "value > 0.2", Every: minute}
	w := watch(t, spec.Trigger{Metric: &sp})
	if look := w.look(t, 3); look.Run != "" || look.Summary != "no value" {
		t.Errorf("before any run: %+v", look)
	}
	measure(t, w, "spam-1", "0.3")
	if look := w.look(t, 3); look.Run == "" || look.Trigger.Value != 0.3 || look.Trigger.Kind != "metric" {
		t.Errorf("the run's output holds, and the look says %+v", look)
	}
	w = watch(t, spec.Trigger{Metric: &spec.MetricTrigger{Step: "score", Output: "metrics.other", Condition: "value > 0.2"}})
	measure(t, w, "spam-1", "0.3")
	if look := w.look(t, 3); look.Run != "" {
		t.Errorf("an output that is absent starts %+v", look)
	}
}
