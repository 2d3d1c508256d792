package watch

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/sluiceml/sluice/dsl/expr"
	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/fault"
	"github.com/sluiceml/sluice/internal/human"
	"github.com/sluiceml/sluice/internal/promquery"
	"github.com/sluiceml/sluice/store"
	"github.com/sluiceml/sluice/store/record"
)

// blind is after how many missed looks nobody can say that a condition held without a break.
const blind = 3

// metric is due when the condition has held for the time of `for`, and the last start is the cooldown ago. A nil value means that there
// is no number: then the condition does not hold. last is when the trigger looked before.
func (state *State) metric(sp spec.MetricTrigger, value *float64, last, now time.Time) (*cause, error) {
	if value == nil {
		state.Saw, state.HoldsSince = "no value", time.Time{}
		return nil, nil
	}
	holds, err := expr.MetricHolds(sp.Condition, *value)
	if err != nil {
		return nil, fault.New(fault.Invalid, fmt.Sprintf("condition `%s`: %v", sp.Condition, err), err)
	}
	state.Saw = "value " + human.Number(*value)
	if !holds {
		state.HoldsSince = time.Time{}
		return nil, nil
	}
	if state.HoldsSince.IsZero() || now.Sub(last) > blind*time.Duration(sp.Every) {
		state.HoldsSince = now
	}
	held := now.Sub(state.HoldsSince)
	state.Saw += ", condition has held for " + human.Duration(held)
	switch {
	case held < time.Duration(sp.For):
		return nil, nil
	case !state.FiredAt.IsZero() && now.Sub(state.FiredAt) < time.Duration(sp.Cooldown):
		state.Saw += ", cooling down"
		return nil, nil
	}
	is := state.FiredAt.Format(time.RFC3339Nano) + " " + state.HoldsSince.Format(time.RFC3339Nano)
	return &cause{is: is, facts: spec.TriggerFacts{Value: *value}}, nil
}

// measure returns the number a metric trigger is about; nil when there is none now.
func (t *Triggers) measure(ctx context.Context, sp spec.MetricTrigger, pipeline string) (*float64, error) {
	if sp.Query != "" {
		return promquery.Ask(ctx, cmp.Or(sp.Prometheus, spec.DefaultPrometheus), sp.Query)
	}
	last, err := record.LastAccepted(ctx, t.Store, pipeline, "")
	if err != nil || last.Run == "" {
		return nil, err
	}
	var step record.StepRecord
	switch err := t.Store.GetJSON(ctx, record.StepKey(last.Run, sp.Step), &step); {
	case errors.Is(err, store.ErrNotFound):
		return nil, nil
	case err != nil:
		return nil, err
	}
	outputs, err := record.LoadOutputs(ctx, t.Store, record.StepOutput{Outputs: step.Outputs, OutputsRef: step.OutputsRef})
	if err != nil {
		return nil, err
	}
	value, ok := sp.Last(map[string]spec.StepResult{sp.Step: {Status: step.Status, Outputs: outputs}})
	if !ok {
		return nil, nil
	}
	return &value, nil
}
