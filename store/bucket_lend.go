package store

import (
	"context"
	"time"

	"gocloud.dev/blob"
)

// Lend implements Lender by an address that is signed with the credentials of this process, and ends with them at the latest.
func (d *bucketDriver) Lend(ctx context.Context, key string, life time.Duration) (string, error) {
	if err := checkKey(key); err != nil {
		return "", err
	}
	url, err := d.bucket.SignedURL(ctx, d.at.Path+key, &blob.SignedURLOptions{Expiry: life})
	if err != nil {
		return "", d.fail(ctx, "lend", key, err)
	}
	return url, nil
}
