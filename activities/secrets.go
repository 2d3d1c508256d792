package activities

import (
	"context"

	"github.com/sluiceml/sluice/dsl/spec"
)

// environment is the one that a submission came with.
func (e *Engine) environment(ctx context.Context, submission string) (*spec.Environment, error) {
	sub, err := e.submission(ctx, submission)
	if err != nil {
		return nil, err
	}
	return sub.program.Environment(), nil
}
