package registry_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sluiceml/sluice/internal/artifact"
	"github.com/sluiceml/sluice/internal/testing/interleave"
	"github.com/sluiceml/sluice/store"
	"github.com/sluiceml/sluice/store/registry"
)

var day = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// version is one that a run made some minutes into the day.
func version(run, digest string, minutes int) registry.Published {
	return registry.Published{
		Name: "mail", Artifact: artifact.Ref{Type: artifact.Dataset, Digest: digest}, Run: run, Step: "clean",
		At: day.Add(time.Duration(minutes) * time.Minute),
	}
}

func publish(t *testing.T, s *store.Store, v registry.Published) {
	t.Helper()
	if _, _, err := registry.Publish(t.Context(), s, v); err != nil {
		t.Error(err)
	}
}

func current(t *testing.T, s *store.Store) string {
	t.Helper()
	all, err := registry.Current(t.Context(), s, artifact.Dataset)
	if err != nil {
		t.Error(err)
	}
	return all["mail"].Artifact.Digest
}

func history(t *testing.T, s *store.Store) []string {
	t.Helper()
	moves, err := registry.History(t.Context(), s, artifact.Dataset, "mail")
	if err != nil {
		t.Error(err)
	}
	lines := []string{}
	for _, m := range moves {
		lines = append(lines, fmt.Sprintf("%d %s by %s, by hand: %v", m.Number, m.Version.Artifact.Digest, m.By, m.ByHand()))
	}
	return lines
}

// The history says what a name has meant, and who moved it: runs that made a version or took one over, and people.
func TestHistory(t *testing.T) {
	s, err := store.Open(t.Context(), "mem://"+t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	taken := version("r1", "d1", 1)
	taken.By = "r1b"
	publish(t, s, taken)
	publish(t, s, taken) // tried again
	publish(t, s, version("r2", "d2", 2))
	publish(t, s, version("late", "d3", 1)) // begun before r2, and ended after it
	if err := registry.PointTo(t.Context(), s, taken, "user:anna", "", day.Add(3*time.Minute)); err != nil {
		t.Fatal(err)
	}
	publish(t, s, version("r4", "d2", 4)) // the rollback holds
	if got := current(t, s); got != "d1" {
		t.Errorf("current is %s, want d1", got)
	}
	publish(t, s, version("r5", "d5", 5))
	want := []string{
		"4 d5 by r5/clean, by hand: false", "3 d1 by user:anna, by hand: true", "2 d2 by r2/clean, by hand: false", "1 d1 by r1b/clean, by hand: false",
	}
	if diff := cmp.Diff(want, history(t, s)); diff != "" || current(t, s) != "d5" {
		t.Errorf("current is %s, the history (-want +got):\n%s", current(t, s), diff)
	}
}

// Wherever one of two publishes in the midst of the other, the newer version stays the current one.
func TestPublishMeetsPublish(t *testing.T) {
	interleave.Each(t, func(t *testing.T, s *store.Store, before func(func()) *store.Store) {
		met := false
		publish(t, before(func() { met = true; publish(t, s, version("newer", "d2", 2)) }), version("older", "d1", 1))
		if got := current(t, s); met && got != "d2" {
			t.Errorf("current is %s, want d2: %q", got, history(t, s))
		}
	})
}

// A rollback in the midst of publishing what the name had before holds, and so does one while a run that began earlier publishes.
func TestRollbackMeetsPublish(t *testing.T) {
	for _, digest := range []string{"d1", "d3"} {
		interleave.Each(t, func(t *testing.T, s *store.Store, before func(func()) *store.Store) {
			publish(t, s, version("r1", "d1", 1))
			publish(t, s, version("r2", "d2", 2))
			met := false
			back := func() {
				met = true
				if err := registry.PointTo(t.Context(), s, version("r2", "d2", 2), "user:anna", "", day.Add(time.Hour)); err != nil {
					t.Error(err)
				}
			}
			publish(t, before(back), version("r3", digest, 3))
			if got := current(t, s); met && got != "d2" {
				t.Errorf("while %s is published the rollback is lost: %s, %q", digest, got, history(t, s))
			}
		})
	}
}

// Many workers publish at once: the newest of all is current, and no move is lost.
func TestPublishTogether(t *testing.T) {
	const workers, each = 4, 6
	for name, address := range map[string]string{"files": "file://" + t.TempDir(), "memory": "mem://" + t.TempDir()} {
		t.Run(name, func(t *testing.T) {
			s, err := store.Open(t.Context(), address)
			if err != nil {
				t.Fatal(err)
			}
			var all sync.WaitGroup
			for w := range workers {
				all.Go(func() {
					for i := range each {
						n := i*workers + w
						publish(t, s, version(fmt.Sprint("r", n), fmt.Sprint("d", n), n))
					}
				})
			}
			all.Wait()
			if got, want := current(t, s), fmt.Sprint("d", workers*each-1); got != want {
				t.Errorf("current is %s, want %s: %q", got, want, history(t, s))
			}
			moves, err := registry.History(t.Context(), s, artifact.Dataset, "mail")
			if err != nil {
				t.Fatal(err)
			}
			for i, m := range moves {
				if m.Number != int64(len(moves)-i) || i > 0 && m.Version.At.After(moves[i-1].Version.At) {
					t.Errorf("move %d of %q is out of order", m.Number, history(t, s))
				}
			}
		})
	}
}

// TestPublishBesideAnother: publishing a reused result does not overwrite the record of another version made by the same run and step, even
// if it is published again.
func TestPublishBesideAnother(t *testing.T) {
	s, err := store.Open(t.Context(), "mem://"+t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	publish(t, s, version("a", "d1", 0))
	taken := version("a", "d2", 1)
	taken.By = "b"
	for range 2 {
		if registered, _, err := registry.Publish(t.Context(), s, taken); !registered || err != nil {
			t.Errorf("registered: %v, %v", registered, err)
		}
	}
	all, err := registry.Versions(t.Context(), s, artifact.Dataset, "mail")
	if err != nil {
		t.Fatal(err)
	}
	got := []string{}
	for _, v := range all {
		got = append(got, v.Artifact.Digest+" of "+v.Run)
	}
	if diff := cmp.Diff([]string{"d2 of b", "d1 of a"}, got); diff != "" {
		t.Error(diff)
	}
	if current(t, s) != "d2" {
		t.Errorf("current is %s, want d2", current(t, s))
	}
}
