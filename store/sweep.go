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
	// reuseAfter is the age from which it is noted that a blob was stored again. Sweep spares younger blobs anyway.
	reuseAfter = time.Hour
	// SweepMargin is how much older than anything that may need it a blob must be for Sweep: reuseAfter, and the same again for clock skew.
	SweepMargin = 2 * reuseAfter
	// sweepBatch is how many blobs are deleted before writers get a turn, and sweepLimit bounds the time for that.
	sweepBatch = 500
	sweepLimit = time.Minute
	// sweepPatience is how long one sweep may be seen at work before it counts as dead, and sweepPoll is how often to check whether it is
	// done.
	sweepPatience = 2 * sweepLimit
	sweepPoll     = 50 * time.Millisecond
	// sweepNotice is how long Sweep waits for another sweep before it says so.
	sweepNotice = time.Second
)

// reuse notes that an old blob is needed again, and reports whether the blob will stay: Sweep deletes no blob with a recent note. The order
// of steps prevents a race. reuse writes the note, waits for a running sweep, and then checks that the blob exists. A sweep announces
// itself first and then looks for notes. So either the sweep sees the note, or reuse sees the sweep.
func (s *Store) reuse(ctx context.Context, key string, info Info) (there bool, err error) {
	if s.now().Sub(info.Modified) < reuseAfter {
		return true, nil
	}
	for {
		if err := s.driver.Write(ctx, noteKey(key), bytes.NewReader(nil), WriteOptions{Unsynced: true}); err != nil {
			return false, err
		}
		waited, err := s.awaitSweep(ctx, nil)
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

// noteKey returns the key of the note that a blob was stored again.
func noteKey(blob string) string { return reusedPrefix + strings.TrimPrefix(blob, blobsPrefix) }

// sweeping is the record under sweepKey. It identifies the sweep that is deleting blobs.
type sweeping struct {
	ID string    `json:"id"`
	At time.Time `json:"at"`
}

// awaitSweep waits until no sweep is deleting blobs, and reports whether one was. A sweep that takes longer than sweepPatience counts as
// dead. waiting, if not nil, is called for a sweep that takes longer than sweepNotice, with the time from which it counts as dead.
func (s *Store) awaitSweep(ctx context.Context, waiting func(until time.Time)) (waited bool, err error) {
	var first sweeping
	said := false
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
			first, begun, said = who, time.Now(), false
		}
		waited = true
		if waiting != nil && !said && time.Since(begun) >= sweepNotice {
			waiting(begun.Add(sweepPatience))
			said = true
		}
		if time.Since(begun) > sweepPatience {
			return waited, s.endSweep(ctx, who.ID)
		}
		select {
		case <-time.After(sweepPoll):
		case <-ctx.Done():
			return waited, context.Cause(ctx)
		}
	}
}

// endSweep deletes the record of a sweep, but not that of another one that has begun since.
func (s *Store) endSweep(ctx context.Context, id string) error {
	var who sweeping
	err := s.GetJSON(ctx, sweepKey, &who)
	switch {
	case errors.Is(err, ErrNotFound):
		return nil
	case err != nil && !errors.Is(err, ErrCorrupt):
		return err
	case who.ID != id:
		return nil
	}
	return s.driver.Delete(ctx, sweepKey)
}

// Sweep deletes those blobs in garbage that have neither been written nor stored again since before, and returns them. Other processes may
// write and sweep at the same time. before must be earlier, by SweepMargin, than the start of anything that may need blobs that no record
// refers to yet. garbage must come from Garbage with the same time. waiting, if not nil, is called if Sweep has to wait for another sweep
// that may be dead, with the time until which it waits at most.
func (s *Store) Sweep(ctx context.Context, garbage []Info, before time.Time, waiting func(until time.Time)) ([]Info, error) {
	var gone []Info
	for batch := range slices.Chunk(garbage, sweepBatch) {
		deleted, err := s.sweep(ctx, batch, before, waiting)
		gone = append(gone, deleted...)
		if err != nil {
			return gone, err
		}
	}
	// Notes of removed records that are older than that are no longer needed.
	forgotten, err := s.infos(ctx, forgottenPrefix, func(info Info) bool { return info.Modified.Before(before) })
	if err != nil {
		return gone, err
	}
	return gone, Each(ctx, len(forgotten), func(ctx context.Context, i int) error { return s.driver.Delete(ctx, forgotten[i].Key) })
}

// sweep deletes one batch. Others that want to store one of its blobs again wait until it is done.
func (s *Store) sweep(ctx context.Context, batch []Info, before time.Time, waiting func(until time.Time)) (gone []Info, err error) {
	id := rand.Text()
	for {
		err := s.PutJSON(ctx, sweepKey, sweeping{ID: id, At: s.now()}, WriteOptions{IfAbsent: true})
		if err == nil {
			break
		}
		if !errors.Is(err, ErrExists) {
			return nil, err
		}
		if _, err := s.awaitSweep(ctx, waiting); err != nil {
			return nil, err
		}
	}
	defer func() { err = errors.Join(err, s.endSweep(context.WithoutCancel(ctx), id)) }()
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

// Forget removes records. What they refer to counts as referenced for a while longer, because another process may have just read a record
// and be about to write what it found to another place. The last key is removed after all others.
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

// NoteForgotten is for records that are about to be removed or replaced. It keeps what they refer to for as long as Forget does.
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
