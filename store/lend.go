package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"gocloud.dev/blob"

	"github.com/sluiceml/sluice/internal/objectstore"
)

// ErrNotLent says that the store's objects have no addresses that others could fetch them by.
var ErrNotLent = errors.New("the store cannot be reached from other machines: use a bucket, such as s3://name")

// Lend returns an address by which anybody who knows it can fetch an object for a while, over HTTP and without credentials, whether or not
// the object is there. It is signed with the credentials of this process, and ends with them at the latest. ErrNotLent for a store that
// is not in a bucket.
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

// LendBlob is Lend for a blob. What is fetched has to be compared with the digest by whoever fetches it.
func (s *Store) LendBlob(ctx context.Context, digest string, life time.Duration) (string, error) {
	key, err := blobKey(digest)
	if err != nil {
		return "", err
	}
	return s.Lend(ctx, key, life)
}
