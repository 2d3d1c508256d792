package engine

import (
	"context"

	"github.com/sluiceml/sluice/store/record"
)

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

// HasPython reports whether the Python of a submission is still the one in a key, if any is.
func (e *Engine) HasPython(ctx context.Context, submission, keyed string) (bool, error) {
	if keyed == "" {
		return true, nil
	}
	sub, err := e.Submission(ctx, submission)
	if err != nil {
		return false, err
	}
	now := map[string]string{}
	err = e.addPython(ctx, sub, now)
	return now[partPython] == keyed, err
}
