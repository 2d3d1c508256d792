package store

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// ErrNotLent says that the store's objects have no addresses that others could fetch them by.
var ErrNotLent = errors.New("the store cannot be reached from other machines: keep it in a bucket, such as s3://name")

// Lender is a Driver whose objects can be fetched over HTTP, without credentials, by an address that is good for a while.
type Lender interface {
	// Lend returns such an address, whether or not the object is there.
	Lend(ctx context.Context, key string, life time.Duration) (url string, err error)
}

// Lend returns an address by which anybody who knows it can fetch an object for a while. ErrNotLent where there is no such thing.
func (s *Store) Lend(ctx context.Context, key string, life time.Duration) (string, error) {
	lender, ok := s.driver.(Lender)
	if !ok {
		return "", fmt.Errorf("store %s: %w", s.url, ErrNotLent)
	}
	return lender.Lend(ctx, key, life)
}

// LendBlob is Lend for a blob. What is fetched has to be compared with the digest by whoever fetches it.
func (s *Store) LendBlob(ctx context.Context, digest string, life time.Duration) (string, error) {
	key, err := blobKey(digest)
	if err != nil {
		return "", err
	}
	return s.Lend(ctx, key, life)
}
