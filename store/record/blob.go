package record

import (
	"context"
	"encoding/json"

	"github.com/sluiceml/sluice/store"
)

// InlineLimit is how large outputs and specs may be to travel through history; larger ones go by digest.
const InlineLimit = 4 << 10

// ReadBlob decodes a blob of JSON into v.
func ReadBlob(ctx context.Context, s *store.Store, digest string, v any) error {
	r, err := s.Blob(ctx, digest)
	if err != nil {
		return err
	}
	defer r.Close()
	return json.NewDecoder(r).Decode(v)
}
