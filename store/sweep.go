package store

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/sluiceml/sluice/internal/artifact"
)

const (
	// reuseAfter is how old a blob must be for its being stored again to be noted: younger ones are as safe as those just written.
	reuseAfter = time.Hour
	// SweepMargin is how much older than what is needed a blob must be for Sweep: reuseAfter, and as much for clocks that differ.
	SweepMargin = 2 * reuseAfter
	// sweepBatch is how many blobs are deleted before others get their turn, and sweepLimit how long that may take.
	sweepBatch = 500
	sweepLimit = time.Minute
	// sweepPatience is when one who deletes is taken for dead, and sweepPoll how often it is looked whether he is done.
	sweepPatience = 2 * sweepLimit
	sweepPoll     = 50 * time.Millisecond
)

// reuse notes that an old blob is needed again, and reports whether it is there to stay: Sweep deletes no blob with such a note that is young.
// The note comes first, then it is looked whether anybody deletes, then whether the blob is there. Who deletes says so first, and then
// looks for notes: either he sees the note, or he is seen.
func (s *Store) reuse(ctx context.Context, key string, info Info) (there bool, err error) {
	if s.now().Sub(info.Modified) < reuseAfter {
		return true, nil
	}
	for {
		if err := s.driver.Write(ctx, noteKey(key), bytes.NewReader(nil), WriteOptions{Unsynced: true}); err != nil {
			return false, err
		}
		waited, err := s.awaitSweep(ctx)
		if err != nil {
			return false, err
		}
		if waited {
			continue
		}
		_, err = s.driver.Stat(ctx, key)
		if errors.Is(err, ErrNotFound) {
			return false, nil
		}
		return err == nil, err
	}
}

// noteKey is where it is noted that a blob was stored again.
func noteKey(blob string) string { return reusedPrefix + strings.TrimPrefix(blob, blobsPrefix) }

// sweeping says who deletes blobs.
type sweeping struct {
	ID string    `json:"id"`
	At time.Time `json:"at"`
}

// awaitSweep waits until nobody deletes blobs, and reports whether somebody did. One who is at it for too long is dead.
func (s *Store) awaitSweep(ctx context.Context) (waited bool, err error) {
	var first sweeping
	begun := time.Now()
	for {
		var who sweeping
		switch err := s.GetJSON(ctx, sweepKey, &who); {
		case errors.Is(err, ErrNotFound):
			return waited, nil
		case err != nil && !errors.Is(err, ErrCorrupt):
			return waited, err
		}
		if !waited || who.ID != first.ID {
			first, begun = who, time.Now()
		}
		waited = true
		if time.Since(begun) > sweepPatience {
			return waited, s.driver.Delete(ctx, sweepKey)
		}
		select {
		case <-time.After(sweepPoll):
		case <-ctx.Done():
			return waited, context.Cause(ctx)
		}
	}
}

// Sweep deletes those of some blobs that were neither written nor stored again since a time, and returns them. Others may write meanwhile, and
// sweep too. before is to be by SweepMargin earlier than the beginning of whatever may need blobs that no record refers to yet; the blobs are
// those of a Garbage with the same time.
func (s *Store) Sweep(ctx context.Context, garbage []Info, before time.Time) ([]Info, error) {
	var gone []Info
	for batch := range slices.Chunk(garbage, sweepBatch) {
		deleted, err := s.sweep(ctx, batch, before)
		gone = append(gone, deleted...)
		if err != nil {
			return gone, err
		}
	}
	// What was forgotten before is forgotten now.
	forgotten, err := s.forgotten(ctx, func(info Info) bool { return info.Modified.Before(before) })
	if err != nil {
		return gone, err
	}
	return gone, Each(ctx, len(forgotten), func(ctx context.Context, i int) error { return s.driver.Delete(ctx, forgotten[i].Key) })
}

// sweep deletes one batch, while others who would store one of its blobs again wait.
func (s *Store) sweep(ctx context.Context, batch []Info, before time.Time) (gone []Info, err error) {
	for {
		err := s.PutJSON(ctx, sweepKey, sweeping{ID: rand.Text(), At: s.now()}, WriteOptions{IfAbsent: true})
		if err == nil {
			break
		}
		if !errors.Is(err, ErrExists) {
			return nil, err
		}
		if _, err := s.awaitSweep(ctx); err != nil {
			return nil, err
		}
	}
	defer func() { err = errors.Join(err, s.driver.Delete(context.WithoutCancel(ctx), sweepKey)) }()
	ctx, cancel := context.WithTimeoutCause(ctx, sweepLimit, fmt.Errorf("%d files were not deleted within %s", len(batch), sweepLimit))
	defer cancel()
	deleted := make([]bool, len(batch))
	err = Each(ctx, len(batch), func(ctx context.Context, i int) (err error) {
		deleted[i], err = s.sweepOne(ctx, batch[i].Key, before)
		return err
	})
	for i, info := range batch {
		if deleted[i] {
			gone = append(gone, info)
		}
	}
	return gone, err
}

func (s *Store) sweepOne(ctx context.Context, key string, before time.Time) (gone bool, err error) {
	for _, at := range []string{key, noteKey(key)} {
		info, err := s.driver.Stat(ctx, at)
		if err == nil && !info.Modified.Before(before) {
			return false, nil
		}
		if err != nil && !errors.Is(err, ErrNotFound) {
			return false, err
		}
	}
	if err := s.driver.Delete(ctx, key); err != nil {
		return false, err
	}
	return true, s.driver.Delete(ctx, noteKey(key))
}

// Forget removes records. What they refer to counts as referred to for a while: somebody may have read one of them just now, and is about to
// write what he found there elsewhere. The last of the keys is removed after all others.
func (s *Store) Forget(ctx context.Context, keys ...string) error {
	if err := s.NoteForgotten(ctx, keys...); err != nil || len(keys) == 0 {
		return err
	}
	last := len(keys) - 1
	err := Each(ctx, last, func(ctx context.Context, i int) error { return s.driver.Delete(ctx, keys[i]) })
	if err != nil {
		return err
	}
	return s.driver.Delete(ctx, keys[last])
}

// NoteForgotten keeps what records refer to that are about to be removed, or replaced, for as long as Forget does.
func (s *Store) NoteForgotten(ctx context.Context, keys ...string) error {
	m := &marker{store: s, used: map[string]artifact.Type{}, done: func() {}}
	records := make([]Info, len(keys))
	for i, key := range keys {
		records[i].Key = key
	}
	if err := m.read(ctx, records); err != nil || len(m.used) == 0 {
		return err
	}
	return s.PutJSON(ctx, forgottenPrefix+rand.Text()+".json", slices.Sorted(maps.Keys(m.used)), WriteOptions{})
}

// forgotten lists notes of removed records that want accepts.
func (s *Store) forgotten(ctx context.Context, want func(Info) bool) ([]Info, error) {
	var all []Info
	for info, err := range s.driver.List(ctx, forgottenPrefix) {
		if err != nil {
			return nil, err
		}
		if want(info) {
			all = append(all, info)
		}
	}
	return all, nil
}
