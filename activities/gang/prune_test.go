package gang

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/sluiceml/sluice/internal/poll"
	"github.com/sluiceml/sluice/internal/testing/flowtest"
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
	for step := int64(1); step <= 5; step++ {
		if err := checkpoint.Commit(t.Context(), s, key, checkpoint.Manifest{Generation: 1, Step: step}); err != nil {
			t.Fatal(err)
		}
	}
	for _, seal := range []checkpoint.Seal{{Generation: 1}, {Generation: 2, Resume: &checkpoint.Manifest{Generation: 1, Step: 5}}} {
		if err := s.PutJSON(t.Context(), fmt.Sprintf("checkpoints/r/fit/seal/%d", seal.Generation), seal, store.WriteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	key.Generation = 2
	flowtest.InActivity(t, func(ctx context.Context) {
		defer (&Trainings{Store: s}).prune(ctx, key, 3)()
		ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
		defer cancel()
		left := 0
		for range poll.Every(ctx, 10*time.Millisecond) {
			if left = len(commitsOf(t, s, "fit")); left <= 3 {
				break
			}
		}
		if left != 3 {
			t.Errorf("%d commits are left, want 3", left)
		}
	})
}
