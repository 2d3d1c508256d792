package registry

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/sluiceml/sluice/internal/artifact"
	"github.com/sluiceml/sluice/store"
)

// Move is a change of a name's current version. The moves of a name are numbered, and the last one is in effect.
type Move struct {
	Number int64     `json:"number"`
	At     time.Time `json:"at"`
	// By is the RUN/STEP that published the version, or the person who moved the name to it by hand.
	By string `json:"by,omitempty"`
	// Reason is the reason that the person gave.
	Reason string `json:"reason,omitempty"`
	// Version is the current version since then.
	Version Published `json:"version"`
	// Removed are short digests of versions that were removed from the name, of this move or, if a version never was the current one, of
	// any. They are not references: garbage collection does not keep the content.
	Removed []string `json:"removed,omitempty"`
}

// shortDigest identifies a version that was removed.
func shortDigest(digest string) string {
	_, hex, _ := strings.Cut(digest, ":")
	if hex == "" {
		hex = digest
	}
	return hex[:min(len(hex), 32)]
}

// hadVersion reports whether a version was removed from the name.
func hadVersion(ctx context.Context, s *store.Store, v Published) (bool, error) {
	moves, err := History(ctx, s, v.Artifact.Type, v.Name)
	short := shortDigest(v.Artifact.Digest)
	return slices.ContainsFunc(moves, func(m Move) bool {
		return slices.Contains(m.Removed, short)
	}), err
}

// ByHand reports whether a person moved the name.
func (m Move) ByHand() bool { return !m.Version.Pointed.IsZero() }

// historyPrefix returns the prefix of the moves of a name.
func historyPrefix(typ artifact.Type, name string) string {
	return store.HistoryPrefix + string(typ) + "/" + name + "/"
}

// History returns the moves of a name, the newest first.
func History(ctx context.Context, s *store.Store, typ artifact.Type, name string) ([]Move, error) {
	moves, err := store.RecordsIn[Move](ctx, s, historyPrefix(typ, name), nil)
	slices.Reverse(moves)
	return moves, err
}

// move changes the current version of a name to what decide returns, given the last move. If another process moves the name at the same
// time, decide is called again. decide returns false to leave the name alone.
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
		err = s.PutJSON(ctx, key, next, store.WriteOptions{IfAbsent: true})
		if !errors.Is(err, store.ErrExists) { // else another process was faster: decide again
			return err
		}
	}
}

// lastMove returns the last move of a name. It is zero if there is none.
func lastMove(ctx context.Context, s *store.Store, typ artifact.Type, name string) (last Move, err error) {
	keys, err := s.Keys(ctx, historyPrefix(typ, name))
	if err != nil || len(keys) == 0 {
		return last, err
	}
	return last, s.GetJSON(ctx, keys[len(keys)-1], &last)
}
