package agent

import (
	"context"
	"fmt"
	"io"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/store"
	"github.com/sluiceml/sluice/training"
	"github.com/sluiceml/sluice/training/checkpoint"
	"github.com/sluiceml/sluice/training/protocol"
)

// stuckStore never finishes the upload of what lies under a name.
type stuckStore struct {
	store.Driver
	part    string
	waiting atomic.Int64
}

func (s *stuckStore) Write(ctx context.Context, key string, r io.Reader, opts store.WriteOptions) error {
	if strings.Contains(key, s.part) {
		s.waiting.Add(1)
		<-ctx.Done()
		return context.Cause(ctx)
	}
	return s.Driver.Write(ctx, key, r, opts)
}

// saving writes a checkpoint at once, and another when it is told to stop.
const saving = `
save() { mkdir "$SLUICE_CHECKPOINT_DIR/part-$1"; echo $1 > "$SLUICE_CHECKPOINT_DIR/part-$1/weights"; mv "$SLUICE_CHECKPOINT_DIR/part-$1" "$SLUICE_CHECKPOINT_DIR/step-$1"; }
trap 'save 9; exit 143' TERM
save 5
while true; do sleep 0.05; done
`

// TestNoticeCommitsTheNewest: at a notice the upload under way gives way to the checkpoint that is written then.
func TestNoticeCommitsTheNewest(t *testing.T) {
	s := openMem(t)
	stuck := &stuckStore{Driver: s.Driver(), part: "/step-5/"}
	g := startGangOn(t, store.New(stuck, s.URL()), 1, spec.Train{}, saving)
	await(t, "the upload of step 5", func() bool { return stuck.waiting.Load() > 0 })
	began := time.Now()
	if err := g.nodes[0].Stop(t.Context(), protocol.StopInput{Generation: 1, Grace: time.Minute}); err != nil {
		t.Fatal(err)
	}
	if end := g.end(t, 0); end.Code != exitStopped || end.CommittedStep != 9 || end.CommitError != "" {
		t.Errorf("ended %+v, want step 9 committed", end)
	}
	if took := time.Since(began); took > 30*time.Second {
		t.Errorf("it took %s", took)
	}
}

// fullStore has no space for what lies under a name, while it is full.
type fullStore struct {
	store.Driver
	part string
	full atomic.Bool
}

func (s *fullStore) Write(ctx context.Context, key string, r io.Reader, opts store.WriteOptions) error {
	if strings.Contains(key, s.part) && s.full.Load() {
		return fmt.Errorf("write %s: %w", key, store.ErrFull)
	}
	return s.Driver.Write(ctx, key, r, opts)
}

// TestFailingCommitIsSaid: while the store is full a node says so, and no longer when the checkpoint has been committed.
func TestFailingCommitIsSaid(t *testing.T) {
	s := openMem(t)
	full := &fullStore{Driver: s.Driver(), part: "/step-5/"}
	full.full.Store(true)
	g := startGangOn(t, store.New(full, s.URL()), 1, spec.Train{}, saving)
	why := "commit step-5: there is no space left in " + s.URL()
	await(t, why, func() bool { return strings.HasPrefix(g.ranks[0].progress().CommitError, why) })
	full.full.Store(false)
	await(t, "the commit of step 5", func() bool { p := g.ranks[0].progress(); return p.CommittedStep == 5 && p.CommitError == "" })
}

// counting makes a hundred steps and writes a checkpoint after them, three times. Its number is n times how many there are.
const counting = `
save() { mkdir "$SLUICE_CHECKPOINT_DIR/part-$1"; echo $1 > "$SLUICE_CHECKPOINT_DIR/part-$1/weights"; mv "$SLUICE_CHECKPOINT_DIR/part-$1" "$SLUICE_CHECKPOINT_DIR/step-$1"; }
step=0
for epoch in 1 2 3; do
	for i in $(seq 100); do step=$((step + 1)); echo "{\"step\":$step}" >> "$SLUICE_METRICS"; sleep 0.005; done
	save $((n * epoch))
done
while true; do sleep 0.05; done
`

// TestCheckpointsCountEpochs: where a generation begins, and so what was lost, is counted in the steps that the metrics report, also if the
// names of checkpoints count epochs.
func TestCheckpointsCountEpochs(t *testing.T) {
	for n, want := range map[int64]struct{ least, most, lines int64 }{1: {250, 300, 300}, 100: {300, 300, 300}, 98: {294, 294, 294}} { // 98: they come late
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			s := openMem(t)
			g := startGangOn(t, s, 1, spec.Train{}, fmt.Sprintf("n=%d%s", n, counting))
			await(t, "the last commit", func() bool { return g.ranks[0].commits.done.Load() == 3*n })
			if got := g.ranks[0].progress().CommittedStep; got < want.least || got > want.most {
				t.Errorf("committed up to step %d, want %d to %d", got, want.least, want.most)
			}
			seal, err := checkpoint.MakeSeal(t.Context(), s, training.Key{Run: "r", Step: "s", Generation: 2}, checkpoint.Origin{}, nil)
			if err != nil {
				t.Fatal(err)
			}
			if got := seal.FromStep(); seal.FromCheckpoint() != 3*n || got < want.least || got > want.most {
				t.Errorf("the next generation begins after step %d with checkpoint %d, want %d to %d", got, seal.FromCheckpoint(), want.least, want.most)
			}
			blob, err := seal.Files(s, training.Key{Run: "r", Step: "s", Generation: 2}).Blob(t.Context(), seal.Resume.Metrics)
			if err != nil {
				t.Fatal(err)
			}
			defer blob.Close()
			if text, err := io.ReadAll(blob); err != nil || int64(strings.Count(string(text), "\n")) != want.lines {
				t.Errorf("%d lines of metrics, %v, want %d", strings.Count(string(text), "\n"), err, want.lines)
			}
			reached, err := checkpoint.Reached(t.Context(), s, training.Key{Run: "r", Step: "s", Generation: 1})
			if err != nil || reached[len(reached)-1] != seal.FromStep() {
				t.Errorf("checkpoints at steps %v, %v", reached, err)
			}
		})
	}
}

// TestUploadLimit: an upload that moves at all ends within its limit, however large it is.
func TestUploadLimit(t *testing.T) {
	const slowest = 1 << 20 // bytes a second
	for _, size := range []int64{0, 5 << 20, 40 << 30, 3 << 40} {
		if limit := uploadLimit(size); limit < 30*time.Minute || int64(limit.Seconds())*slowest < size {
			t.Errorf("%d bytes may take %v", size, limit)
		}
	}
}
