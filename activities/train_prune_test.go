package activities

import (
	"context"
	"testing"
	"time"

	"github.com/sluiceml/sluice/internal/poll"
	"github.com/sluiceml/sluice/store"
	"github.com/sluiceml/sluice/training"
	"github.com/sluiceml/sluice/training/checkpoint"
)

// TestPruneAsAGenerationBegins: what the generations before have left goes at once, because each may be shorter than the pause between two
// removals.
func TestPruneAsAGenerationBegins(t *testing.T) {
	s, err := store.Open(t.Context(), "mem://"+t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	key := training.Key{Run: "r", Step: "fit", Generation: 1}
	seal := func() {
		t.Helper()
		if _, err := checkpoint.MakeSeal(t.Context(), s, key, checkpoint.Origin{}, nil); err != nil {
			t.Fatal(err)
		}
	}
	seal()
	for step := int64(1); step <= 5; step++ {
		if err := checkpoint.Commit(t.Context(), s, key, checkpoint.Manifest{Generation: 1, Step: step}); err != nil {
			t.Fatal(err)
		}
	}
	key.Generation = 2
	seal()
	inActivity(t, func(ctx context.Context) {
		defer (&Trainings{Store: s}).prune(ctx, key, 3)()
		ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
		defer cancel()
		left := 0
		for range poll.Every(ctx, 10*time.Millisecond) {
			left = 0
			for info, err := range s.Driver().List(ctx, store.CheckpointsPrefix+"r/fit/g1/") {
				if err != nil {
					t.Fatal(info, err)
				}
				left++
			}
			if left <= 3 {
				break
			}
		}
		if left != 3 {
			t.Errorf("%d commits are left, want 3", left)
		}
	})
}
