package registry

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/sluiceml/sluice/internal/artifact"
	"github.com/sluiceml/sluice/store"
)

// Move is what made a name mean a version. The moves of a name are numbered, and the last says what it means now.
type Move struct {
	Number int64     `json:"number"`
	At     time.Time `json:"at"`
	// By is RUN/STEP, which published the version, or the person who moved the name to it by hand; empty where an earlier version of Sluice
	// did not say.
	By string `json:"by,omitempty"`
	// Reason is that person's.
	Reason string `json:"reason,omitempty"`
	// Version is what the name has meant since.
	Version Published `json:"version"`
}

// ByHand reports whether a person moved the name.
func (m Move) ByHand() bool { return !m.Version.Pointed.IsZero() }

// historyPrefix is where the moves of a name are.
func historyPrefix(typ artifact.Type, name string) string {
	return store.HistoryPrefix + string(typ) + "/" + name + "/"
}

// History returns the moves of a name, the newest first.
func History(ctx context.Context, s *store.Store, typ artifact.Type, name string) ([]Move, error) {
	moves, err := store.RecordsIn[Move](ctx, s, historyPrefix(typ, name), nil)
	slices.Reverse(moves)
	return moves, err
}

// move makes a name mean what decide says, given its last move, until nobody else has moved it meanwhile. decide returns false for leaving
// the name alone.
func move(ctx context.Context, s *store.Store, typ artifact.Type, name string, decide func(last Move) (next Move, moves bool)) error {
	for {
		last, err := lastMove(ctx, s, typ, name)
		if err != nil {
			return err
		}
		next, moves := decide(last)
		if !moves {
			return nil
		}
		next.Number = last.Number + 1
		key := fmt.Sprintf("%s%010d.json", historyPrefix(typ, name), next.Number)
		switch err := s.PutJSON(ctx, key, next, store.WriteOptions{IfAbsent: true}); {
		case errors.Is(err, store.ErrExists):
			continue // of all that were about to move it one was first; the others look again
		case err != nil:
			return err
		}
		return s.PutJSON(ctx, newestKey(typ, name), next.Version, store.WriteOptions{}) // for workers of earlier versions
	}
}

// lastMove is the last move of a name; one without a number when an earlier version of Sluice made it, or nothing did.
func lastMove(ctx context.Context, s *store.Store, typ artifact.Type, name string) (last Move, err error) {
	key := ""
	for info, err := range s.Driver().List(ctx, historyPrefix(typ, name)) {
		if err != nil {
			return last, err
		}
		key = info.Key
	}
	if key != "" {
		return last, s.GetJSON(ctx, key, &last)
	}
	if err := s.GetJSON(ctx, newestKey(typ, name), &last.Version); err != nil && !errors.Is(err, store.ErrNotFound) {
		return last, err
	}
	return last, nil
}
