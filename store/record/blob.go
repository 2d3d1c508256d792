package record

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"

	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/store"
)

// InlineLimit is the maximum size, in bytes, of outputs and specs in workflow history. Larger ones are passed by digest.
const InlineLimit = 4 << 10

// PayloadLimit is the maximum size, in bytes, of a payload in workflow history: an input or a result with whatever it has, compressed. Larger
// ones are moved to the store on their way to Temporal.
const PayloadLimit = 8 << 10

// WriteBlob stores v as a blob of JSON.
func WriteBlob(ctx context.Context, s *store.Store, v any) (digest string, err error) {
	raw, err := json.Marshal(v)
	if err != nil {
		return "", err
	}
	digest, _, err = s.PutBlob(ctx, bytes.NewReader(raw))
	return digest, err
}

// ReadBlob decodes a blob of JSON into v.
func ReadBlob(ctx context.Context, s *store.Store, digest string, v any) error {
	raw, err := s.ReadBlob(ctx, digest)
	if err != nil {
		return err
	}
	return json.Unmarshal(raw, v)
}

// LoadSpec returns the resolved spec of a step, which is in its input or, when it is large, in the store.
func LoadSpec[S any](ctx context.Context, s *store.Store, in StepInput) (resolved S, err error) {
	raw := in.Spec
	if in.SpecRef != "" {
		if err := ReadBlob(ctx, s, in.SpecRef, &raw); err != nil {
			return resolved, fmt.Errorf("read the step's spec: %w", err)
		}
	}
	return spec.Decode[S](raw)
}
