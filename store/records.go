package store

import (
	"context"
	"errors"
	"slices"

	"golang.org/x/sync/errgroup"
)

// readers is how many records are read at a time. In a bucket each one costs a round trip.
const readers = 32

// Records reads the JSON records under keys concurrently, and returns them in the order of the keys. A missing record is nil.
func Records[T any](ctx context.Context, s *Store, keys []string) ([]*T, error) {
	records := make([]*T, len(keys))
	return records, Each(ctx, len(keys), func(ctx context.Context, i int) error {
		record := new(T)
		err := s.GetJSON(ctx, keys[i], record)
		if errors.Is(err, ErrNotFound) {
			return nil
		}
		records[i] = record
		return err
	})
}

// RecordsIn reads the JSON records whose keys start with prefix and pass want, in the order of their keys. A nil want accepts all keys.
func RecordsIn[T any](ctx context.Context, s *Store, prefix string, want func(key string) bool) ([]T, error) {
	keys, err := s.Keys(ctx, prefix)
	if err != nil {
		return nil, err
	}
	if want != nil {
		keys = slices.DeleteFunc(keys, func(key string) bool { return !want(key) })
	}
	found, err := Records[T](ctx, s, keys)
	if err != nil {
		return nil, err
	}
	var all []T
	for _, record := range found {
		if record != nil { // not removed in the meantime
			all = append(all, *record)
		}
	}
	return all, nil
}

// Keys lists the keys that start with prefix, in byte order.
func (s *Store) Keys(ctx context.Context, prefix string) ([]string, error) {
	var keys []string
	for info, err := range s.driver.List(ctx, prefix) {
		if err != nil {
			return nil, err
		}
		keys = append(keys, info.Key)
	}
	return keys, nil
}

// infos lists the objects under prefix that want accepts.
func (s *Store) infos(ctx context.Context, prefix string, want func(Info) bool) ([]Info, error) {
	var all []Info
	for info, err := range s.driver.List(ctx, prefix) {
		if err != nil {
			return nil, err
		}
		if want(info) {
			all = append(all, info)
		}
	}
	return all, nil
}

// Each calls do for every index below n, several at a time. The first error cancels the rest.
func Each(ctx context.Context, n int, do func(ctx context.Context, i int) error) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(readers)
	for i := range n {
		group.Go(func() error {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			return do(ctx, i)
		})
	}
	return group.Wait()
}
