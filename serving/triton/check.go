package triton

import (
	"context"
	"fmt"

	"github.com/sluiceml/sluice/dsl/spec"
)

// nobodys is the name of no model.
const nobodys = "sluice-asks-for-the-control-mode"

// Check says why a target cannot have releases on this machine: its repository cannot be written to, or its Triton cannot be reached or
// loads no models on request.
func Check(ctx context.Context, t spec.TritonTarget) error {
	if err := openRepository(t.Repository).writable(ctx); err != nil {
		return err
	}
	// To unload a model that is not there changes nothing, and fails in every other control mode.
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	if err := newControl(t.Server).unload(ctx, nobodys); err != nil {
		return fmt.Errorf("%s: %w", t.Server, err)
	}
	return nil
}
