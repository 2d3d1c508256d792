package engine

import (
	"context"
	"encoding/json"
	"time"

	"go.temporal.io/sdk/activity"

	"github.com/sluiceml/sluice/activities/contract"
	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/store"
	"github.com/sluiceml/sluice/store/record"
)

// WithVerdict wraps an activity that executes a step, so that it also evaluates a success and resolves the next steps.
func (e *Engine) WithVerdict(
	do func(context.Context, record.StepInput) (record.StepOutput, error),
) func(context.Context, contract.PerformInput) (contract.Performed, error) {
	return func(ctx context.Context, in contract.PerformInput) (contract.Performed, error) {
		if err := e.flush(ctx, in.Ends); err != nil { // the run makes sure of them before it relies on them
			activity.GetLogger(ctx).Warn("records have not been written yet", "error", err)
		}
		out, err := do(ctx, in.StepInput)
		done := contract.Performed{StepOutput: out}
		if err != nil {
			return done, err
		}
		if done.Rows, err = rowsOf(ctx, e.Store, in.Kind, out); err != nil { // they are counted by nobody then
			activity.GetLogger(ctx).Warn("the number of rows of a clean step is not known", "error", err)
		}
		if in.End == nil {
			return done, nil
		}
		if done.Verdict, err = e.preEvaluate(ctx, in, out); err != nil { // the workflow asks again, and hears why
			activity.GetLogger(ctx).Warn("the step has not been evaluated yet", "error", err)
		}
		return done, nil
	}
}

// rowsOf are the rows of a cleaning; nil of any other step.
func rowsOf(ctx context.Context, s *store.Store, kind spec.Kind, out record.StepOutput) (*spec.Rows, error) {
	if !kinds[kind].cleans {
		return nil, nil
	}
	raw, err := record.LoadOutputs(ctx, s, out)
	if err != nil {
		return nil, err
	}
	var outputs struct {
		Rows *spec.Rows `json:"rows"`
	}
	err = json.Unmarshal(raw, &outputs)
	return outputs.Rows, err
}

// preEvaluate evaluates a step that has just been executed. It writes nothing: if Temporal considers this worker dead, another execution
// counts. A step that publishes is therefore not evaluated here; for such a step the verdict is nil.
func (e *Engine) preEvaluate(ctx context.Context, in contract.PerformInput, out record.StepOutput) (*contract.StepVerdict, error) {
	end := *in.End
	end.Run, end.Submission, end.Kind, end.Status, end.Output = in.Run, in.Submission, in.Kind, spec.StatusSucceeded, out
	sub, err := e.Submission(ctx, end.Submission)
	if err != nil || len(sub.Program.Publishes(end.Step)) > 0 {
		return nil, err
	}
	record, verdict, err := e.evaluate(ctx, end)
	if err != nil {
		return nil, err
	}
	if verdict.Status != spec.StatusSucceeded || len(end.Next) == 0 {
		return &verdict, nil
	}
	known := map[string]spec.StepResult{}
	if end.Instance == nil {
		if known[end.Step], err = e.resultOf(ctx, record); err != nil {
			return nil, err
		}
	}
	for i := range end.Next {
		next := &end.Next[i]
		next.Run, next.Submission, next.Now = in.Run, in.Submission, time.Now() // it was named when this step began, which may be long ago
	}
	verdict.Next = e.resolveAll(ctx, end.Next, known)
	return &verdict, nil
}

// Keyed wraps an activity that executes a step: if the Python is not that of the step's key when its program starts, the key does not stand
// for the result. Whatever else a key is made of does not change, or is checked by the kind.
func (e *Engine) Keyed(
	do func(context.Context, record.StepInput) (record.StepOutput, error),
) func(context.Context, record.StepInput) (record.StepOutput, error) {
	return func(ctx context.Context, in record.StepInput) (record.StepOutput, error) {
		isSame, err := e.HasPython(ctx, in.Submission, in.Python)
		if err != nil {
			return record.StepOutput{}, err
		}
		out, err := do(ctx, in)
		out.Unkeyed = out.Unkeyed || !isSame
		return out, err
	}
}
