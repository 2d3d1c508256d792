package checkpoint

import (
	"context"
	"errors"

	"github.com/sluiceml/sluice/store"
	"github.com/sluiceml/sluice/training"
)

// Superseded reports whether the generation after k has been sealed, so that nothing k commits any more is ever read.
func Superseded(ctx context.Context, s *store.Store, k training.Key) (bool, error) {
	k.Generation++
	_, err := getSeal(ctx, s, k)
	switch {
	case errors.Is(err, store.ErrNotFound):
		return false, nil
	case errors.Is(err, store.ErrCorrupt):
		return true, nil // it was there
	}
	return err == nil, err
}
