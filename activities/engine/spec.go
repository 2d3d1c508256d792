package engine

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/sluiceml/sluice/internal/fault"
	"github.com/sluiceml/sluice/store"
	"github.com/sluiceml/sluice/store/record"
)

// LoadSpec reads the resolved spec of a step into its struct.
func LoadSpec(ctx context.Context, s *store.Store, in record.StepInput, spec any) error {
	raw := in.Spec
	if in.SpecRef != "" {
		if err := record.ReadBlob(ctx, s, in.SpecRef, &raw); err != nil {
			return fmt.Errorf("spec %s: %w", in.SpecRef, err)
		}
	}
	if err := json.Unmarshal(raw, spec); err != nil {
		return fault.New(fault.Invalid, "the resolved spec of "+in.Step+" cannot be read", err)
	}
	return nil
}
