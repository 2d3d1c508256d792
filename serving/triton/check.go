package triton

import (
	"context"
	"fmt"

	"github.com/sluiceml/sluice/dsl/spec"
)

// Check says why a target cannot have releases on this machine: its repository cannot be written to, or its Triton cannot be reached or
// loads no models on request.
func Check(ctx context.Context, t spec.TritonTarget) error {
	if err := openRepository(t.Repository).writable(ctx); err != nil {
		return err
	}
	if err := newControl(t.Server).accepts(ctx); err != nil {
		return fmt.Errorf("%s: %w", t.Server, err)
	}
	return nil
}
