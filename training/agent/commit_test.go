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

// TestUploadLimit: an upload that moves at all ends within its limit, however large it is.
func TestUploadLimit(t *testing.T) {
	const slowest = 1 << 20 // bytes a second
	for _, size := range []int64{0, 5 << 20, 40 << 30, 3 << 40} {
		if limit := uploadLimit(size); limit < 30*time.Minute || int64(limit.Seconds())*slowest < size {
			t.Errorf("%d bytes may take %v", size, limit)
		}
	}
}
