package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/sluiceml/sluice/internal/artifact"
	"github.com/sluiceml/sluice/store"
	"github.com/sluiceml/sluice/training"
)

// Errors of Find and of a seal, beside those of the store.
var (
	// ErrNone means that no checkpoint has that name.
	ErrNone = errors.New("there is no such checkpoint")
	// ErrDamaged means that a part of a checkpoint is missing from the store, or damaged.
	ErrDamaged = errors.New("the checkpoint is damaged")
)

// Find finds the commit of any run that a reference names, and returns it in the form in which a seal of another training names it. A
// reference is RUN/STEP@TRAINING-STEP; RUN/STEP, for the newest of that step; a digest, sha256:...; or a name and a digest as written by
// Pinned. The error is ErrNone or ErrDamaged if it cannot be used.
func Find(ctx context.Context, s *store.Store, reference string) (*Manifest, error) {
	name, digest, pinned := strings.Cut(reference, pinMark)
	prefix := store.CheckpointsPrefix
	if strings.HasPrefix(reference, "sha256:") {
		name, digest, pinned = "", reference, true
	} else if run, _, ok := strings.Cut(name, "/"); ok {
		prefix += run + "/"
	}
	all, err := list(ctx, s, prefix)
	if err != nil {
		return nil, err
	}
	var found *Kept
	for _, c := range all { // the newest is the last
		isNamed := name == c.Name() || name == c.Run+"/"+c.Step || name == "" && pinned
		if isNamed && (!pinned || digest == c.manifest.Checkpoint.Digest) {
			found = &c
		}
	}
	if found == nil {
		return nil, fmt.Errorf("%q: %w", reference, ErrNone)
	}
	m, err := load(ctx, s, found.key(), found.TrainingStep)
	if err == nil && m == nil {
		err = fmt.Errorf("%s: %w", found.Name(), ErrDamaged)
	}
	if err != nil {
		return nil, err
	}
	m.Run, m.Training = found.Run, found.Step
	return m, nil
}

// pinMark is between the name and the digest of a pinned reference.
const pinMark = "#"

// Pinned is a reference to exactly what Find returned.
func (m Manifest) Pinned() string {
	return Kept{Run: m.Run, Step: m.Training, TrainingStep: m.Step}.Name() + pinMark + m.Checkpoint.Digest
}

// Sources lists the runs from whose checkpoints the trainings of a run went on.
func Sources(ctx context.Context, s *store.Store, run string) ([]string, error) {
	var sources []string
	for info, err := range s.Driver().List(ctx, store.CheckpointsPrefix+run+"/") {
		if err != nil {
			return nil, fmt.Errorf("list the seals of run %s: %w", run, err)
		}
		if !strings.HasSuffix(info.Key, "/seal/1") {
			continue
		}
		var seal Seal
		switch err := s.GetJSON(ctx, info.Key, &seal); {
		case gone(err):
		case err != nil:
			return nil, err
		case seal.Resume != nil && seal.Resume.Run != "":
			sources = append(sources, seal.Resume.Run)
		}
	}
	return sources, nil
}

// Origin is what the first generation of a training continues from.
type Origin struct {
	// Run is the earlier run whose training of the step goes on; empty: none.
	Run string
	// From is what the step names in resume_from, as returned by Find; nil for nothing. What Run left takes precedence.
	From *Manifest
}

// resume finds what it means for a training; nil is nothing. The error is ErrDamaged if From is to be used and cannot be.
func (o Origin) resume(ctx context.Context, s *store.Store, k training.Key, unusable []artifact.Ref) (*Manifest, error) {
	if o.Run != "" {
		m, err := NewestOf(ctx, s, o.Run, k.Step, unusable)
		if m != nil || err != nil {
			return m, err
		}
	}
	if o.From != nil && slices.Contains(unusable, o.From.Checkpoint) {
		return nil, fmt.Errorf("%s: %w", Kept{Run: o.From.Run, Step: o.From.Training, TrainingStep: o.From.Step}.Name(), ErrDamaged)
	}
	return o.From, nil
}
