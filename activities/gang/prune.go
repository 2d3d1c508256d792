package gang

import (
	"context"
	"sync"
	"time"

	"go.temporal.io/sdk/activity"

	"github.com/sluiceml/sluice/training"
	"github.com/sluiceml/sluice/training/checkpoint"
)

const (
	// pruneEvery is how often checkpoints are removed that newer ones replace, while a gang trains.
	pruneEvery = time.Minute
	// replaceAfter is how old a checkpoint of the gang must be to replace others then: longer than a seal takes to be made.
	replaceAfter = time.Minute
)

// prune lets go of a step's checkpoints, but the newest keep, until the function that it returns is called.
func (t *Trainings) prune(ctx context.Context, k training.Key, keep int) (end func()) {
	ctx, cancel := context.WithCancel(ctx)
	var done sync.WaitGroup
	done.Go(func() {
		tick := time.Tick(pruneEvery)
		for {
			t.pruneNow(ctx, k, keep, replaceAfter) // at once: a generation may be shorter than pruneEvery
			select {
			case <-ctx.Done():
				return
			case <-tick:
			}
		}
	})
	return func() { cancel(); done.Wait() }
}

// pruneNow does it once. What cannot be removed now is tried again by whoever prunes next; no training fails of it.
func (t *Trainings) pruneNow(ctx context.Context, k training.Key, keep int, settle time.Duration) {
	if keep < 1 {
		return
	}
	if err := checkpoint.Prune(ctx, t.Store, k, keep, settle); err != nil && ctx.Err() == nil {
		activity.GetLogger(ctx).Warn("old checkpoints could not be removed", "gang", k.String(), "error", err)
	}
}
