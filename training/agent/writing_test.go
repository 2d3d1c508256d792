package agent

import (
	"bytes"
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/store"
	"github.com/sluiceml/sluice/training/protocol"
)

// tutorial saves as tutorials do, under the final name, to a disk that takes its time. It begins a checkpoint when go-<n> is there.
const tutorial = `
import os, pathlib, signal, sys, time
stop = []
signal.signal(signal.SIGTERM, lambda *_: stop.append(1))
import torch
def save(step, seconds):
    folder = pathlib.Path(os.environ["SLUICE_CHECKPOINT_DIR"], f"step-{step}")
    folder.mkdir()
    with open(folder / "model.pt", "wb", buffering=0) as f:
        if seconds:
            f.write(b"PK\x03\x04 begun")
            f.flush()
            pathlib.Path("begun").touch()
            time.sleep(seconds)
            f.seek(0)
        torch.save({"step": step, "weights": torch.ones(1 << 16)}, f)
    pathlib.Path("saved").touch()
for step, seconds in eval(os.environ["SAVES"]):
    save(step, seconds)
while not stop: time.sleep(0.02)
save(9, 0)
sys.exit(143)
`

// A checkpoint that is written under its final name is committed when it is complete, and not before.
func TestCheckpointsWrittenInPlace(t *testing.T) {
	needsTorch(t)
	for name, c := range map[string]struct {
		saves     string
		await     string
		kill      bool
		committed int64
	}{
		"saved at once, then stopped":       {"[(5, 0)]", "saved", false, 9},
		"killed while a file is open":       {"[(5, 1000)]", "begun", true, 0},
		"killed soon after one was written": {"[(5, 0)]", "saved", true, 0},
	} {
		t.Run(name, func(t *testing.T) {
			work := t.TempDir()
			if err := os.WriteFile(filepath.Join(work, "train.py"), []byte(tutorial), 0o600); err != nil {
				t.Fatal(err)
			}
			g := startGang(t, 1, spec.Train{}, "cd "+work+"; export SAVES='"+c.saves+"'; exec python3 train.py")
			awaited, err := filepath.Rel(g.ranks[0].p.dirs.root, filepath.Join(work, c.await))
			if err != nil {
				t.Fatal(err)
			}
			g.await(t, 0, awaited)
			if c.kill {
				err = syscall.Kill(g.ranks[0].proc.PID(), syscall.SIGKILL)
			} else {
				err = g.nodes[0].Stop(t.Context(), protocol.StopInput{Generation: 1, Grace: time.Minute})
			}
			if err != nil {
				t.Fatal(err)
			}
			if end := g.end(t, 0); end.CommittedStep != c.committed || end.CommitError != "" {
				t.Errorf("ended %+v, want step %d committed; it said:\n%s", end, c.committed, g.ranks[0].said.tail)
			}
		})
	}
}

// Of a checkpoint that is written slowly, nothing is committed while its file is open, however long that stays as it is.
func TestOpenFilesAreAwaited(t *testing.T) {
	g := startGang(t, 1, spec.Train{}, `
mkdir "$SLUICE_CHECKPOINT_DIR/step-5"
exec 3> "$SLUICE_CHECKPOINT_DIR/step-5/weights"
printf half >&3
until [ -e "$SLUICE_OUTPUT_DIR/go" ]; do sleep 0.05; done
printf whole >&3
exec 3>&-
touch "$SLUICE_CHECKPOINT_DIR/closed"
while true; do sleep 0.05; done`)
	r := g.ranks[0]
	path := filepath.Join(r.p.dirs.checkpoints, "step-5")
	g.await(t, 0, "checkpoints/step-5/weights")
	await(t, "the time in which it has not changed", func() bool {
		seen, err := shapeOf(path)
		return err == nil && time.Since(seen.newest) > settleTime+5*lookEvery
	})
	if step := r.commits.committed(); step != 0 || !r.areWriting(path) {
		t.Fatalf("committed step %d while its file is open for writing", step)
	}
	if err := os.WriteFile(filepath.Join(r.p.folder.Output, "go"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	g.await(t, 0, "checkpoints/closed")
	closed := time.Now()
	await(t, "the commit", func() bool { return r.commits.committed() == 5 })
	if took := time.Since(closed); took < settleTime/2 {
		t.Errorf("it is committed %s after its last change", took)
	}
}

// changingStore calls change when the first file of a part of the store has been uploaded.
type changingStore struct {
	store.Driver
	part   string
	once   sync.Once
	change func()
}

func (s *changingStore) Write(ctx context.Context, key string, r io.Reader, opts store.WriteOptions) error {
	content, err := io.ReadAll(r)
	if err != nil {
		return err
	}
	err = s.Driver.Write(ctx, key, bytes.NewReader(content), opts)
	if strings.Contains(key, s.part) {
		s.once.Do(s.change)
	}
	return err
}

// A checkpoint that changes while it is uploaded is uploaded again.
func TestCheckpointChangesDuringItsUpload(t *testing.T) {
	s := openMem(t)
	changing := &changingStore{Driver: s.Driver(), part: "/step-5/"}
	var folder string
	ready := make(chan struct{})
	changing.change = func() {
		<-ready
		if err := os.WriteFile(filepath.Join(folder, "more"), []byte("more"), 0o600); err != nil {
			t.Error(err)
		}
	}
	g := startGangOn(t, store.New(changing, s.URL()), 1, spec.Train{}, saving)
	folder = filepath.Join(g.ranks[0].p.dirs.checkpoints, "step-5")
	close(ready)
	await(t, "the commit", func() bool { return g.ranks[0].commits.committed() == 5 })
	if files, err := os.ReadDir(filepath.Join(g.ranks[0].p.dirs.commits, "step-5")); err != nil || len(files) != 2 {
		t.Errorf("committed %v, %v, want both files", files, err)
	}
}
