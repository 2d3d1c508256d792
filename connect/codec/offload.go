package codec

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"

	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/sdk/converter"

	"github.com/sluiceml/sluice/store"
)

const (
	// driverName is in history with every reference, so it never changes.
	driverName  = "sluice-store"
	claimDigest = "digest"
)

// driver stores large payloads as blobs. The SDK calls it when payloads leave and enter the process, after encryption and never during a
// replay, so that each is written once.
type driver struct{ store *store.Store }

// Name implements converter.StorageDriver.
func (driver) Name() string { return driverName }

// Type implements converter.StorageDriver.
func (driver) Type() string { return driverName }

// Store implements converter.StorageDriver.
func (d driver) Store(ctx converter.StorageDriverStoreContext, payloads []*commonpb.Payload) ([]converter.StorageDriverClaim, error) {
	claims := make([]converter.StorageDriverClaim, len(payloads))
	for i, p := range payloads {
		data, err := marshal(p)
		if err != nil {
			return nil, err
		}
		digest, _, err := d.store.PutBlob(ctx.Context, bytes.NewReader(data))
		if err != nil {
			return nil, fmt.Errorf("store a payload of %d bytes in %s: %w", len(data), d.store.URL(), err)
		}
		// Only Temporal knows who needs the payload, so a record protects it from garbage collection.
		held := store.PayloadsPrefix + strings.TrimPrefix(digest, "sha256:") + ".json"
		if err := d.store.PutJSON(ctx.Context, held, map[string]string{claimDigest: digest}, store.WriteOptions{}); err != nil {
			return nil, fmt.Errorf("store a payload of %d bytes in %s: %w", len(data), d.store.URL(), err)
		}
		claims[i] = converter.StorageDriverClaim{ClaimData: map[string]string{claimDigest: digest}}
	}
	return claims, nil
}

// Retrieve implements converter.StorageDriver.
func (d driver) Retrieve(ctx converter.StorageDriverRetrieveContext, claims []converter.StorageDriverClaim) ([]*commonpb.Payload, error) {
	payloads := make([]*commonpb.Payload, len(claims))
	for i, c := range claims {
		p, err := d.load(ctx, c.ClaimData[claimDigest])
		if errors.Is(err, store.ErrNotFound) {
			return nil, fmt.Errorf("payload %s is not in %s: was it written with another store? %w", c.ClaimData[claimDigest], d.store.URL(), err)
		} else if err != nil {
			return nil, fmt.Errorf("payload %s of %s: %w", c.ClaimData[claimDigest], d.store.URL(), err)
		}
		payloads[i] = p
	}
	return payloads, nil
}

func (d driver) load(ctx converter.StorageDriverRetrieveContext, digest string) (*commonpb.Payload, error) {
	r, err := d.store.Blob(ctx.Context, digest)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	data, err := io.ReadAll(io.LimitReader(r, maxPayload+1))
	if err != nil {
		return nil, err
	}
	if len(data) > maxPayload {
		return nil, fmt.Errorf("more than the %d bytes of a payload", maxPayload)
	}
	return unmarshal(data)
}
