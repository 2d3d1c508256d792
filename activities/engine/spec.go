package engine

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/fault"
	"github.com/sluiceml/sluice/store"
	"github.com/sluiceml/sluice/store/record"
)

// LoadSpec returns the resolved spec of a step.
func LoadSpec(ctx context.Context, s *store.Store, in record.StepInput, spec spec.Spec) error {
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
