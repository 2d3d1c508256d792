package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/sluiceml/sluice/store"
)

// ErrLeft means that a training cannot resume from a checkpoint, because a later generation resumed from an earlier one.
var ErrLeft = errors.New("the training resumed from an earlier checkpoint, and cannot resume from this one")

// Newer lists what an ended training committed after a checkpoint, the oldest first. Without those, NewestOf finds this checkpoint. The
// error is ErrLeft if it never does, and store.ErrNotFound if the checkpoint is gone.
func Newer(ctx context.Context, s *store.Store, c Kept) ([]Kept, error) {
	next := c.key()
	next.Generation++
	switch seal, err := getSeal(ctx, s, next); {
	case errors.Is(err, store.ErrNotFound): // c's generation was the last
	case err != nil:
		return nil, fmt.Errorf("seal of generation %d: %w", next.Generation, err)
	case c.TrainingStep > seal.upTo():
		return nil, fmt.Errorf("%s: %w", c.Name(), ErrLeft)
	}
	all, err := list(ctx, s, folder(c.key())+"/")
	if err == nil && !slices.ContainsFunc(all, func(other Kept) bool { return other.Name() == c.Name() && other.Generation == c.Generation }) {
		err = fmt.Errorf("%s: %w", c.Name(), store.ErrNotFound)
	}
	return slices.DeleteFunc(all, func(other Kept) bool {
		return other.Step != c.Step || other.Generation < c.Generation || other.Generation == c.Generation && other.TrainingStep <= c.TrainingStep
	}), err
}

// Restore removes what Newer lists, the newest first, so that at every moment the training can resume from what is left.
func Restore(ctx context.Context, s *store.Store, newer []Kept) error {
	for _, c := range slices.Backward(newer) {
		if err := Remove(ctx, s, c); err != nil {
			return err
		}
	}
	return nil
}
