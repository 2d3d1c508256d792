package checkpoint_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sluiceml/sluice/store"
	"github.com/sluiceml/sluice/training/checkpoint"
)

func (b *bench) prune(generation, keep int, settle time.Duration) {
	b.f.Helper()
	if err := checkpoint.Prune(b.t.Context(), b.store, key(generation), keep, settle); err != nil {
		b.f.Fatal(err)
	}
}

// commits lists what the store has of any commit, by generation and step: manifests, and files.
func (b *bench) commits() map[string]bool {
	b.f.Helper()
	found := map[string]bool{}
	for _, prefix := range []string{"checkpoints/r/fit/", store.PartsPrefix + "checkpoints/r/fit/"} {
		for info, err := range b.store.Driver().List(b.t.Context(), prefix) {
			if err != nil {
				b.f.Fatal(err)
			}
			name := strings.TrimPrefix(info.Key, prefix)
			if parts := strings.Split(name, "/"); strings.HasPrefix(parts[1], "step-") {
				found[parts[0]+" "+strings.TrimSuffix(parts[1], ".json")] = true
			}
		}
	}
	return found
}

func (b *bench) wantCommits(names ...string) {
	b.f.Helper()
	want := map[string]bool{}
	for _, name := range names {
		want[name] = true
	}
	if diff := cmp.Diff(want, b.commits()); diff != "" {
		b.f.Fatalf("commits (-want +got):\n%s", diff)
	}
}

func TestPruneLeavesTheNewest(t *testing.T) {
	b := newBench(t, t)
	b.seal(1)
	for step := int64(10); step <= 50; step += 10 {
		b.commit(1, step)
	}
	b.prune(1, 2, time.Hour) // all are too new to replace any
	b.wantCommits("g1 step-10", "g1 step-20", "g1 step-30", "g1 step-40", "g1 step-50")
	b.prune(1, 3, 0)
	b.wantCommits("g1 step-30", "g1 step-40", "g1 step-50")
	b.wantSeal(b.seal(2), 1, 50)
	b.commit(2, 60)
	b.commit(1, 70) // a zombie's
	b.prune(2, 2, 0)
	b.wantCommits("g1 step-50", "g2 step-60")
	b.prune(2, 1, 0) // what the seal names stays: a node may be fetching it
	b.wantCommits("g1 step-50", "g2 step-60")
	b.wantSeal(b.seal(3), 2, 60)
	b.prune(2, 1, 0) // generation 2 is over
	b.wantCommits("g1 step-50", "g2 step-60")
	b.prune(3, 1, 0)
	b.wantCommits("g2 step-60")
}

// Generations that are over keep no more than the newest commits, however new these are.
func TestPruneOfShortGenerations(t *testing.T) {
	b := newBench(t, t)
	b.seal(1)
	for generation := 1; generation <= 5; generation++ {
		for step := range int64(3) {
			b.commit(generation, int64(generation)*100+step)
		}
		b.wantSeal(b.seal(generation+1), generation, int64(generation)*100+2)
		b.prune(generation+1, 3, time.Hour)
	}
	b.wantCommits("g5 step-500", "g5 step-501", "g5 step-502")
	b.commit(6, 600)
	b.prune(6, 2, time.Hour) // the new one replaces none yet
	b.wantCommits("g5 step-501", "g5 step-502", "g6 step-600")
}

// What the seal names stays, although newer commits that cannot be used are there.
func TestPruneLeavesWhatTheSealNames(t *testing.T) {
	b := newBench(t, t)
	b.seal(1)
	b.commit(1, 10)
	damaged := b.commit(1, 20)
	b.wantSeal(b.seal(2, damaged), 1, 10)
	b.prune(2, 1, 0)
	b.wantCommits("g1 step-10", "g1 step-20") // another run may try it again
	b.commit(2, 30)
	b.prune(2, 1, 0)
	b.wantCommits("g1 step-10", "g2 step-30")
}

// A node that was lost while it uploaded leaves files without a manifest.
func TestPruneRemovesStrayFiles(t *testing.T) {
	b := newBench(t, t)
	b.seal(1)
	b.commit(1, 10)
	for _, generation := range []int{1, 2} {
		if _, _, err := checkpoint.Part(b.store, key(generation), 30).PutBlob(t.Context(), strings.NewReader("half")); err != nil {
			t.Fatal(err)
		}
	}
	b.seal(2)
	b.prune(2, 3, 0)
	b.wantCommits("g1 step-10", "g2 step-30") // generation 2 may be at it
}
