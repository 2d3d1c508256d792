package registry

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/sluiceml/sluice/internal/artifact"
	"github.com/sluiceml/sluice/store"
)

// ErrCurrent is returned for the current version of a name.
var ErrCurrent = errors.New("is the current version")

// Remove removes a version of a name with its tags. If digest is empty, it removes the name with all versions and its history. After the
// removal of one version, the history still shows that it existed, but not what it held; a rollback still holds if a step makes it again. The error is ErrCurrent if the version is the
// current one.
func Remove(ctx context.Context, s *store.Store, typ artifact.Type, name, digest string) error {
	last, err := lastMove(ctx, s, typ, name)
	if err != nil {
		return err
	}
	if digest != "" && last.Version.Artifact.Digest == digest {
		return fmt.Errorf("%s: %w", name, ErrCurrent)
	}
	keys, err := keysWith(ctx, s, versionsPrefix(typ, name), func(v Published) bool { return digest == "" || v.Artifact.Digest == digest })
	if err != nil {
		return err
	}
	tags, err := keysWith(ctx, s, tagsPrefix(typ, name), func(t Tag) bool { return digest == "" || t.Digest == digest })
	if err != nil {
		return err
	}
	moves, err := keysWith(ctx, s, historyPrefix(typ, name), func(m Move) bool { return digest == "" || m.Version.Artifact.Digest == digest })
	if err != nil {
		return err
	}
	if digest == "" {
		keys = append(keys, moves...)
	} else if err := redact(ctx, s, typ, name, digest, moves); err != nil {
		return err
	}
	return s.Forget(ctx, append(tags, keys...)...)
}

// redact removes from moves what the version held. It keeps when, by whom and why they were made, and that the name had this version. If
// the version never was the current one, that is kept with the first move.
func redact(ctx context.Context, s *store.Store, typ artifact.Type, name, digest string, moves []string) error {
	if len(moves) == 0 {
		for info, err := range s.Driver().List(ctx, historyPrefix(typ, name)) {
			if err != nil {
				return err
			}
			moves = append(moves, info.Key)
			break
		}
	}
	if err := s.NoteForgotten(ctx, moves...); err != nil {
		return err
	}
	return store.Each(ctx, len(moves), func(ctx context.Context, i int) error {
		var m Move
		if err := s.GetJSON(ctx, moves[i], &m); err != nil {
			return err
		}
		if short := shortDigest(digest); !slices.Contains(m.Removed, short) {
			m.Removed = append(m.Removed, short)
		}
		if v := m.Version; v.Artifact.Digest == digest {
			m.Version = Published{Name: v.Name, Run: v.Run, Step: v.Step, At: v.At, By: v.By, Pointed: v.Pointed}
		}
		return s.PutJSON(ctx, moves[i], m, store.WriteOptions{})
	})
}

// keysWith lists the keys of records below a prefix that want accepts.
func keysWith[T any](ctx context.Context, s *store.Store, prefix string, want func(T) bool) ([]string, error) {
	all, err := s.Keys(ctx, prefix)
	if err != nil {
		return nil, err
	}
	records, err := store.Records[T](ctx, s, all)
	if err != nil {
		return nil, err
	}
	var wanted []string
	for i, r := range records {
		if r != nil && want(*r) {
			wanted = append(wanted, all[i])
		}
	}
	return wanted, nil
}
