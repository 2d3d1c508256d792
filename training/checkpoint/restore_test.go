package checkpoint_test

import (
	"errors"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/sluiceml/sluice/store"
	"github.com/sluiceml/sluice/training/checkpoint"
)

// Whatever its generations committed, a training goes on from the checkpoint that it was taken back to, or that is refused because it never would.
func TestRestore(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		b := newBench(t, rt)
		for g := 1; g <= rapid.IntRange(1, 4).Draw(rt, "generations"); g++ {
			from := b.seal(g).FromStep()
			for range rapid.IntRange(0, 3).Draw(rt, "commits") {
				from += rapid.Int64Range(1, 9).Draw(rt, "steps")
				b.commit(g, from)
			}
			if late := g - 1; late > 0 && rapid.Bool().Draw(rt, "a zombie commits") {
				b.commit(late, from+50)
			}
		}
		all, err := checkpoint.List(t.Context(), b.store)
		if err != nil {
			rt.Fatal(err)
		}
		if len(all) == 0 {
			return
		}
		c := rapid.SampledFrom(all).Draw(rt, "checkpoint")
		newer, err := checkpoint.Newer(t.Context(), b.store, c)
		if errors.Is(err, checkpoint.ErrLeft) {
			for _, other := range all { // also without any other
				if other.Name() != c.Name() || other.Generation != c.Generation {
					if err := checkpoint.Remove(t.Context(), b.store, other); err != nil {
						rt.Fatal(err)
					}
				}
			}
			if m, err := checkpoint.NewestOf(t.Context(), b.store, "r", "fit", nil); m != nil || err != nil {
				rt.Fatalf("%s of generation %d was refused, but the training goes on from %+v, %v", c.Name(), c.Generation, m, err)
			}
			return
		} else if err != nil {
			rt.Fatal(err)
		}
		if err := checkpoint.Restore(t.Context(), b.store, newer); err != nil {
			rt.Fatal(err)
		}
		m, err := checkpoint.NewestOf(t.Context(), b.store, "r", "fit", nil)
		if err != nil || m == nil || m.Generation != c.Generation || m.Step != c.TrainingStep {
			rt.Fatalf("the training goes on from %+v, %v, want %s of generation %d", m, err, c.Name(), c.Generation)
		}
		left, err := checkpoint.List(t.Context(), b.store)
		if err != nil || len(left) != len(all)-len(newer) || slices.ContainsFunc(newer, func(k checkpoint.Kept) bool {
			return k.Generation < c.Generation || k.Generation == c.Generation && k.TrainingStep <= c.TrainingStep
		}) {
			rt.Fatalf("removed %d of %d, and %d are left, %v: %+v", len(newer), len(all), len(left), err, newer)
		}
		for _, gone := range newer { // as when somebody else restored another meanwhile
			if _, err := checkpoint.Newer(t.Context(), b.store, gone); !errors.Is(err, store.ErrNotFound) && !errors.Is(err, checkpoint.ErrLeft) {
				rt.Fatalf("%s is gone: %v", gone.Name(), err)
			}
		}
	})
}
