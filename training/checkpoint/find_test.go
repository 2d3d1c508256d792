package checkpoint_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sluiceml/sluice/internal/artifact"
	"github.com/sluiceml/sluice/training"
	"github.com/sluiceml/sluice/training/checkpoint"
)

func TestFind(t *testing.T) {
	b := newBench(t, t)
	b.seal(1)
	first, second := b.commit(1, 10), b.commit(1, 20)
	gone := b.commit(1, 30)
	sum := strings.TrimPrefix(gone.Digest, "sha256:")
	if err := checkpoint.Part(b.store, key(1), 30).Driver().Delete(t.Context(), "blobs/"+sum[:2]+"/"+sum); err != nil {
		t.Fatal(err)
	}
	for reference, want := range map[string]int64{
		"r/fit@10": 10, "r/fit@20": 20, first.Digest: 10, second.Digest: 20, "r/fit@10#" + first.Digest: 10,
	} {
		m, err := checkpoint.Find(t.Context(), b.store, reference)
		if err != nil || m.Step != want || m.Run != "r" || m.Training != "fit" {
			t.Errorf("%s is %+v, %v, want step %d", reference, m, err, want)
			continue
		}
		if again, err := checkpoint.Find(t.Context(), b.store, m.Pinned()); err != nil || !cmp.Equal(m, again) {
			t.Errorf("pinned, %s is %+v, %v, want %+v", reference, again, err, m)
		}
	}
	for reference, want := range map[string]error{
		"r/fit@11": checkpoint.ErrNone, "r/other": checkpoint.ErrNone, "s/fit": checkpoint.ErrNone, "r": checkpoint.ErrNone, "": checkpoint.ErrNone,
		"sha256:00": checkpoint.ErrNone, "r/fit@10#" + second.Digest: checkpoint.ErrNone,
		"r/fit": checkpoint.ErrDamaged, "r/fit@30": checkpoint.ErrDamaged, gone.Digest: checkpoint.ErrDamaged,
	} {
		if m, err := checkpoint.Find(t.Context(), b.store, reference); !errors.Is(err, want) {
			t.Errorf("%s is %+v, %v, want %v", reference, m, err, want)
		}
	}
}

// A training starts from the checkpoint that its step names, which may be of another step, and goes back to exactly that until it has
// committed itself; a rerun that follows does so, too.
func TestNamedCheckpointIsResumedFrom(t *testing.T) {
	b := newBench(t, t)
	b.seal(1)
	named := b.commit(1, 10)
	b.commit(1, 20)
	from, err := checkpoint.Find(t.Context(), b.store, "r/fit@10")
	if err != nil {
		t.Fatal(err)
	}
	tune := func(run string, generation int) training.Key {
		return training.Key{Run: run, Step: "tune", Generation: generation}
	}
	for _, tt := range []struct {
		k      training.Key
		origin checkpoint.Origin
	}{
		{tune("b", 1), checkpoint.Origin{From: from}},
		{tune("b", 2), checkpoint.Origin{From: from}},
		{tune("c", 1), checkpoint.Origin{Run: "b", From: from}},
		{tune("c", 2), checkpoint.Origin{Run: "b", From: from}},
	} {
		seal, err := checkpoint.MakeSeal(t.Context(), b.store, tt.k, tt.origin, nil)
		if err != nil || !cmp.Equal(from, seal.Resume) {
			t.Fatalf("%s goes on from %+v, %v, want %+v", tt.k, seal.Resume, err, from)
		}
		if err := seal.Files(b.store, tt.k).Fetch(t.Context(), seal.Resume.Checkpoint, t.TempDir()+"/resume"); err != nil {
			t.Errorf("%s: %v", tt.k, err)
		}
	}
	if sources, err := checkpoint.Sources(t.Context(), b.store, "c"); err != nil || !cmp.Equal(sources, []string{"r"}) {
		t.Errorf("run c went on from %v, %v, want run r", sources, err)
	}
	unusable := []artifact.Ref{named}
	if seal, err := checkpoint.MakeSeal(t.Context(), b.store, tune("b", 3), checkpoint.Origin{From: from}, unusable); !errors.Is(err, checkpoint.ErrDamaged) {
		t.Errorf("goes on from %+v, %v, want an error: the named checkpoint cannot be used", seal.Resume, err)
	}
}

// What wrote a checkpoint, and whether it can be read at another size, is listed with it.
func TestListSaysHowItWasWritten(t *testing.T) {
	b := newBench(t, t)
	want := checkpoint.Manifest{Generation: 1, Step: 10, Layout: "sharded", Nodes: 2, Ranks: 4, Reshard: true}
	if err := checkpoint.Commit(t.Context(), b.store, key(1), want); err != nil {
		t.Fatal(err)
	}
	all, err := checkpoint.List(t.Context(), b.store)
	if err != nil || len(all) != 1 {
		t.Fatalf("listed %+v, %v, want one", all, err)
	}
	got := checkpoint.Manifest{Generation: 1, Step: 10, Layout: all[0].Layout, Nodes: all[0].Nodes, Ranks: all[0].Ranks, Reshard: all[0].Reshard}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("it was written (-want +listed):\n%s", diff)
	}
}
