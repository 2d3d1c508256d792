package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"gocloud.dev/blob"

	"github.com/sluiceml/sluice/internal/objectstore"
)

// ErrNotLent is returned for a store whose objects cannot be fetched over HTTP.
var ErrNotLent = errors.New("the store cannot be reached from other machines: use a bucket, such as s3://name")

// Lend returns a signed URL: anyone who has it can fetch the object over HTTP, without credentials, for the time life. The object need not
// exist yet. The URL is signed with the credentials of this process and expires with them at the latest. The error is ErrNotLent for a
// store that is not in a bucket.
func (s *Store) Lend(ctx context.Context, key string, life time.Duration) (string, error) {
	d, ok := s.driver.(*bucketDriver)
	if !ok || !objectstore.IsAddress(s.url) {
		return "", fmt.Errorf("store %s: %w", s.url, ErrNotLent)
	}
	if err := checkKey(key); err != nil {
		return "", err
	}
	url, err := d.bucket.SignedURL(ctx, d.at.Path+key, &blob.SignedURLOptions{Expiry: life})
	if err != nil {
		return "", d.fail(ctx, "lend", key, err)
	}
	return url, nil
}

// LendBlob is Lend for a blob. The recipient must verify the digest.
func (s *Store) LendBlob(ctx context.Context, digest string, life time.Duration) (string, error) {
	key, err := blobKey(digest)
	if err != nil {
		return "", err
	}
	return s.Lend(ctx, key, life)
}
