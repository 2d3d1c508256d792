package record

import (
	"bytes"
	"context"
	"encoding/json"

	"github.com/sluiceml/sluice/store"
)

// InlineLimit is how large outputs and specs may be to travel through history; larger ones go by digest.
const InlineLimit = 4 << 10

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
	r, err := s.Blob(ctx, digest)
	if err != nil {
		return err
	}
	defer r.Close()
	return json.NewDecoder(r).Decode(v)
}
