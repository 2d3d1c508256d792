package engine

import (
	"context"

	"github.com/sluiceml/sluice/dsl/spec"
)

// Environment is the one that a submission came with.
func (e *Engine) Environment(ctx context.Context, submission string) (*spec.Environment, error) {
	sub, err := e.Submission(ctx, submission)
	if err != nil {
		return nil, err
	}
	return sub.Program.Environment(), nil
}
