package checkpoint_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/sluiceml/sluice/internal/artifact"
	"github.com/sluiceml/sluice/store"
	"github.com/sluiceml/sluice/training"
	"github.com/sluiceml/sluice/training/checkpoint"
)

// fatal is what testing.T and rapid.T share.
type fatal interface {
	Helper()
	Fatal(...any)
	Fatalf(string, ...any)
}

// bench is a step in a store of its own.
type bench struct {
	t     *testing.T
	f     fatal
	store *store.Store
	dir   string
}

var stores int

func newBench(t *testing.T, f fatal) *bench {
	stores++
	s, err := store.Open(t.Context(), fmt.Sprintf("mem://checkpoints-%d", stores))
	if err != nil {
		f.Fatal(err)
	}
	return &bench{t: t, f: f, store: s, dir: t.TempDir()}
}

func key(generation int) training.Key {
	return training.Key{Run: "r", Step: "fit", Generation: generation}
}

// commit commits a checkpoint whose content differs with generation and step.
func (b *bench) commit(generation int, step int64) artifact.Ref {
	b.f.Helper()
	part := checkpoint.Part(b.store, key(generation), step)
	content, _, err := part.PutBlob(b.t.Context(), strings.NewReader(fmt.Sprintf("metrics of g%d to %d", generation, step)))
	if err != nil {
		b.f.Fatal(err)
	}
	ref, err := part.PutTree(b.t.Context(), artifact.Checkpoint, b.dir, map[string]string{"id": fmt.Sprint(generation, step)}, nil)
	if err != nil {
		b.f.Fatal(err)
	}
	err = checkpoint.Commit(b.t.Context(), b.store, key(generation), checkpoint.Manifest{
		Generation: generation, Step: step, Checkpoint: ref, Metrics: content, CommittedAt: time.Unix(step, 0).UTC(),
	})
	if err != nil {
		b.f.Fatal(err)
	}
	return ref
}

func (b *bench) seal(generation int, unusable ...artifact.Ref) checkpoint.Seal {
	b.f.Helper()
	seal, err := checkpoint.MakeSeal(b.t.Context(), b.store, key(generation), checkpoint.Origin{}, unusable)
	if err != nil {
		b.f.Fatal(err)
	}
	return seal
}

// wantSeal checks what a generation resumes from: generation and step, 0 and 0 for nothing.
func (b *bench) wantSeal(seal checkpoint.Seal, generation int, step int64) {
	b.f.Helper()
	got := [2]int64{}
	if seal.Resume != nil {
		got = [2]int64{int64(seal.Resume.Generation), seal.Resume.Step}
	}
	if want := [2]int64{int64(generation), step}; got != want {
		b.f.Fatalf("generation %d resumes from generation and step %v, want %v", seal.Generation, got, want)
	}
}

func TestSealNamesTheNewestCommit(t *testing.T) {
	b := newBench(t, t)
	b.wantSeal(b.seal(1), 0, 0)
	b.commit(1, 10)
	b.commit(1, 100)
	b.commit(1, 9)
	b.wantSeal(b.seal(2), 1, 100)
	b.wantSeal(b.seal(3), 1, 100) // generation 2 committed nothing
}

func TestSealStays(t *testing.T) {
	b := newBench(t, t)
	b.seal(1)
	b.commit(1, 10)
	first := b.seal(2)
	b.commit(1, 20)
	if diff := cmp.Diff(first, b.seal(2)); diff != "" {
		t.Errorf("the seal changed (-first +second):\n%s", diff)
	}
}

func TestZombieCommitsForNobody(t *testing.T) {
	b := newBench(t, t)
	b.seal(1)
	b.commit(1, 10)
	b.seal(2)
	b.commit(1, 50) // too late
	b.wantSeal(b.seal(3), 1, 10)
	b.commit(2, 20)
	b.commit(1, 60)
	b.wantSeal(b.seal(4), 1, 10) // generation 3 committed nothing, and generation 2's commit came after the seal of 3
}

func TestUnusableFallsBackToTheOneBefore(t *testing.T) {
	b := newBench(t, t)
	b.seal(1)
	b.commit(1, 10)
	second := b.commit(1, 20)
	b.wantSeal(b.seal(2), 1, 20)
	b.wantSeal(b.seal(3, second), 1, 10)
	third := b.commit(3, 30)
	b.wantSeal(b.seal(4, second), 3, 30)
	b.wantSeal(b.seal(5, second, third), 1, 10)
}

func TestIncompleteCommitIsPassedOver(t *testing.T) {
	b := newBench(t, t)
	b.seal(1)
	b.commit(1, 10)
	ref := b.commit(1, 20)
	sum := strings.TrimPrefix(ref.Digest, "sha256:")
	if err := checkpoint.Part(b.store, key(1), 20).Driver().Delete(t.Context(), "blobs/"+sum[:2]+"/"+sum); err != nil {
		t.Fatal(err)
	}
	b.wantSeal(b.seal(2), 1, 10)
}

// A commit whose record, or whose list of files, cannot be read any more costs the steps since the one before, not the training.
func TestDamagedCommitIsPassedOver(t *testing.T) {
	const record = "checkpoints/r/fit/g1/step-20.json"
	for name, damage := range map[string]func(b *bench, ref artifact.Ref){
		"no JSON":   func(b *bench, _ artifact.Ref) { b.overwrite(b.store, record, `{"generation": 1, "st`) },
		"another's": func(b *bench, _ artifact.Ref) { b.overwrite(b.store, record, `{}`) },
		"a digest": func(b *bench, ref artifact.Ref) {
			b.overwrite(b.store, record, fmt.Sprintf(`{"generation":1,"step":20,"checkpoint":{"type":"checkpoint","digest":"sha256:?%s"}}`, ref.Digest[8:]))
		},
		"undone":     func(b *bench, _ artifact.Ref) { b.overwrite(b.store, record, "\x00\x00\x00\x00") },
		"its list":   func(b *bench, ref artifact.Ref) { b.overwriteBlob(ref.Digest, `{"type":"checkpoint"}`) },
		"list's end": func(b *bench, ref artifact.Ref) { b.overwriteBlob(ref.Digest, `{"type":"checkp`) },
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, t)
			b.seal(1)
			b.commit(1, 10)
			damage(b, b.commit(1, 20))
			b.wantSeal(b.seal(2), 1, 10)
		})
	}
}

// A damaged record of how far a generation came, which its checkpoints are not read by, does not keep the training from going on.
func TestDamagedProgressIsNone(t *testing.T) {
	b := newBench(t, t)
	if err := checkpoint.PutProgress(t.Context(), b.store, key(1), checkpoint.Progress{Step: 12}); err != nil {
		t.Fatal(err)
	}
	b.overwrite(b.store, "checkpoints/r/fit/g1/progress.json", `{"step": 12, "at": "20`)
	if p, err := checkpoint.GetProgress(t.Context(), b.store, key(1)); err != nil || p != (checkpoint.Progress{}) {
		t.Errorf("got %+v, %v, want none", p, err)
	}
}

func (b *bench) overwrite(s *store.Store, key, text string) {
	b.f.Helper()
	if err := s.Driver().Write(b.t.Context(), key, strings.NewReader(text), store.WriteOptions{}); err != nil {
		b.f.Fatal(err)
	}
}

// overwriteBlob changes a blob of the commit of step 20.
func (b *bench) overwriteBlob(digest, text string) {
	b.f.Helper()
	sum := strings.TrimPrefix(digest, "sha256:")
	b.overwrite(checkpoint.Part(b.store, key(1), 20), "blobs/"+sum[:2]+"/"+sum, text)
}

func TestSealIsOneForAllWhoMakeIt(t *testing.T) {
	b := newBench(t, t)
	b.seal(1)
	seals := make([]checkpoint.Seal, 20)
	var all sync.WaitGroup
	for i := range seals {
		all.Go(func() {
			if i%2 == 0 {
				if err := checkpoint.Commit(t.Context(), b.store, key(1), checkpoint.Manifest{Generation: 1, Step: int64(i + 1), Checkpoint: seedRef(t, b, int64(i+1)), Metrics: seedBlob(t, b, int64(i+1))}); err != nil {
					t.Error(err)
				}
			}
			var err error
			if seals[i], err = checkpoint.MakeSeal(t.Context(), b.store, key(2), checkpoint.Origin{}, nil); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	for _, seal := range seals {
		if diff := cmp.Diff(seals[0], seal); diff != "" {
			t.Errorf("two seals of one generation:\n%s", diff)
		}
	}
}

func seedRef(t *testing.T, b *bench, step int64) artifact.Ref {
	ref, err := checkpoint.Part(b.store, key(1), step).PutTree(t.Context(), artifact.Checkpoint, b.dir, nil, nil)
	if err != nil {
		t.Error(err)
	}
	return ref
}

func seedBlob(t *testing.T, b *bench, step int64) string {
	digest, _, err := checkpoint.Part(b.store, key(1), step).PutBlob(t.Context(), strings.NewReader(""))
	if err != nil {
		t.Error(err)
	}
	return digest
}

// Whatever the nodes of all generations commit and whenever, each generation resumes from the newest commit that its predecessor had made
// when it was sealed, else from what that one resumed from; also when workers remove what they may meanwhile.
func TestSealsFollowTheChain(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		b := newBench(t, rt)
		b.seal(1)
		current := 1
		resume := [2]int64{}
		newest := [2]int64{}
		for range rapid.IntRange(1, 30).Draw(rt, "actions") {
			if rapid.IntRange(0, 2).Draw(rt, "prune") == 0 {
				keep := rapid.IntRange(1, 3).Draw(rt, "keep")
				b.prune(rapid.IntRange(1, current).Draw(rt, "of"), keep, 0)
				b.prune(current, keep, 0)
				if left := b.commits(); len(left) > keep+1 {
					rt.Fatalf("%d commits are left, want at most %d and one that the seal names: %v", len(left), keep, left)
				}
				continue
			}
			if rapid.Bool().Draw(rt, "seal") {
				current++
				if newest[1] > 0 {
					resume = newest
				}
				b.wantSeal(b.seal(current), int(resume[0]), resume[1])
				newest = [2]int64{}
				continue
			}
			generation := rapid.IntRange(1, current).Draw(rt, "generation")
			// A generation's steps lie beyond what it resumed from.
			step := resume[1] + rapid.Int64Range(1, 20).Draw(rt, "steps")
			b.commit(generation, step)
			if generation == current && step > newest[1] {
				newest = [2]int64{int64(generation), step}
			}
		}
	})
}

func TestProgress(t *testing.T) {
	b := newBench(t, t)
	for _, want := range []int64{0, 7, 9} {
		if want > 0 {
			if err := checkpoint.PutProgress(t.Context(), b.store, key(1), checkpoint.Progress{Step: want}); err != nil {
				t.Fatal(err)
			}
		}
		got, err := checkpoint.GetProgress(t.Context(), b.store, key(1))
		if err != nil || got.Step != want {
			t.Errorf("progress %d, %v, want %d", got.Step, err, want)
		}
	}
}

func TestPace(t *testing.T) {
	at := time.Unix(100, 0)
	for _, tt := range []struct {
		progress checkpoint.Progress
		want     time.Duration
	}{
		{checkpoint.Progress{}, 0},
		{checkpoint.Progress{Step: 7}, 0},
		{checkpoint.Progress{Step: 7, At: at, FirstStep: 7, FirstAt: at}, 0},
		{checkpoint.Progress{Step: 17, At: at.Add(5 * time.Second), FirstStep: 7, FirstAt: at}, 500 * time.Millisecond},
	} {
		if got := tt.progress.Pace(); got != tt.want {
			t.Errorf("%+v: %v, want %v", tt.progress, got, tt.want)
		}
	}
}

// TestAnotherRunGoesOn: the training of a run goes on from the newest commit of another, or of the one from which that went on, until it has
// committed itself.
func TestAnotherRunGoesOn(t *testing.T) {
	b := newBench(t, t)
	b.seal(1)
	damaged := []artifact.Ref{}
	for step := range int64(3) {
		damaged = append(damaged, b.commit(1, step+1))
	}
	seal := func(run string, generation int, earlier string, unusable ...artifact.Ref) checkpoint.Seal {
		t.Helper()
		seal, err := checkpoint.MakeSeal(t.Context(), b.store, training.Key{Run: run, Step: "fit", Generation: generation}, checkpoint.Origin{Run: earlier}, unusable)
		if err != nil {
			t.Fatal(err)
		}
		return seal
	}
	want := func(seal checkpoint.Seal, run string, step int64) {
		t.Helper()
		if seal.Resume == nil || seal.Resume.Run != run || seal.Resume.Step != step {
			t.Fatalf("generation %d goes on from %+v, want step %d of run %q", seal.Generation, seal.Resume, step, run)
		}
	}
	second := seal("second", 1, "r")
	want(second, "r", 3)
	tree := t.TempDir()
	if err := second.Files(b.store, training.Key{Run: "second", Step: "fit", Generation: 1}).Fetch(t.Context(), second.Resume.Checkpoint, tree); err != nil {
		t.Errorf("fetch what it goes on from: %v", err)
	}
	want(seal("second", 2, "r", damaged[2]), "r", 2) // generation 1 could not use it
	want(seal("third", 1, "second"), "r", 3)         // the second committed nothing
	if got := seal("fourth", 1, "no-such-run").Resume; got != nil {
		t.Errorf("goes on from %+v of a run that is not there", got)
	}

	key := training.Key{Run: "third", Step: "fit", Generation: 1}
	m := checkpoint.Manifest{Generation: 1, Step: 5, CommittedAt: time.Unix(9, 0).UTC()}
	part := checkpoint.Part(b.store, key, 5)
	var err error
	if m.Metrics, _, err = part.PutBlob(t.Context(), strings.NewReader("metrics")); err != nil {
		t.Fatal(err)
	}
	if m.Checkpoint, err = part.PutTree(t.Context(), artifact.Checkpoint, b.dir, nil, nil); err != nil {
		t.Fatal(err)
	}
	if err := checkpoint.Commit(t.Context(), b.store, key, m); err != nil {
		t.Fatal(err)
	}
	want(seal("third", 2, "second"), "", 5)
	want(seal("fifth", 1, "third"), "third", 5)
	key.Generation = 2
	if err := checkpoint.Prune(t.Context(), b.store, key, 1, 0); err != nil {
		t.Fatal(err)
	}
	want(seal("sixth", 1, "r"), "r", 3) // pruning one run leaves those of others
}
