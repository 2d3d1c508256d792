package agent

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/sluiceml/sluice/store"
	"github.com/sluiceml/sluice/store/artifact"
	"github.com/sluiceml/sluice/training/checkpoint"
)

const (
	// commitLimit bounds one commit beside training.
	commitLimit = 30 * time.Minute
	// commitPause follows a commit that failed.
	commitPause = 2 * time.Second
	// progressEvery is how often the last step is written to the store, for the case that the node is lost.
	progressEvery = time.Second
)

// committer commits the checkpoints of rank 0 beside training: the newest folder step-<n> that is not committed yet.
type committer struct {
	store *store.Store
	ranks *ranks
	done  atomic.Int64 // the newest committed step, that of the checkpoint resumed from included
	said  int64        // the last step in the progress record
}

func newCommitter(s *store.Store, r *ranks) *committer {
	c := &committer{store: s, ranks: r}
	c.done.Store(r.p.seal.FromStep())
	return c
}

func (c *committer) committed() int64 { return c.done.Load() }

// loop commits until quit is closed.
func (c *committer) loop(quit <-chan struct{}) {
	if c.ranks.p.index != 0 {
		return
	}
	look := time.NewTicker(lookEvery)
	defer look.Stop()
	progress := time.NewTicker(progressEvery)
	defer progress.Stop()
	ctx := context.Background()
	for {
		select {
		case <-quit:
			return
		case <-progress.C:
			c.progress(ctx)
		case <-look.C:
			if err := c.newest(ctx); err != nil {
				c.ranks.node.log.Error("commit failed, and will be tried again", "error", err)
				select {
				case <-quit:
					return
				case <-time.After(commitPause):
				}
			}
		}
	}
}

// last commits what the ranks left behind when they ended.
func (c *committer) last(ctx context.Context) error {
	if c.ranks.p.index != 0 {
		return nil
	}
	c.progress(ctx)
	return c.newest(ctx)
}

func (c *committer) progress(ctx context.Context) {
	now := c.ranks.metrics.state()
	if now.Step == c.said {
		return
	}
	p := checkpoint.Progress{Step: now.Step, Of: now.Of, At: now.At, FirstStep: now.FirstStep, FirstAt: now.FirstAt}
	if err := checkpoint.PutProgress(ctx, c.store, c.ranks.key, p); err != nil {
		c.ranks.node.log.Warn("progress cannot be recorded", "error", err)
		return
	}
	c.said = now.Step
}

// newest commits the newest checkpoint, if it is newer than what is committed.
func (c *committer) newest(ctx context.Context) error {
	steps, err := stepsIn(c.ranks.p.dirs.checkpoints)
	if err != nil || len(steps) == 0 {
		return err
	}
	step := slices.Max(steps)
	if step <= c.done.Load() {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, commitLimit)
	defer cancel()
	if err := c.commit(ctx, step); err != nil {
		return fmt.Errorf("commit step-%d: %w", step, err)
	}
	return nil
}

// commit links the folder, so that the script may rotate its own, uploads it with the metrics up to its step, and writes the
// manifest last.
func (c *committer) commit(ctx context.Context, step int64) error {
	name := "step-" + strconv.FormatInt(step, 10)
	own := filepath.Join(c.ranks.p.dirs.commits, name)
	defer os.RemoveAll(own)
	err := linkTree(filepath.Join(c.ranks.p.dirs.checkpoints, name), own)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // rotated away meanwhile: a newer one exists
	} else if err != nil {
		return err
	}
	ref, err := c.store.PutTree(ctx, artifact.Checkpoint, own, nil, nil)
	if err != nil {
		return err
	}
	lines, err := c.ranks.metrics.upTo(step)
	if err != nil {
		return err
	}
	metrics, _, err := c.store.PutBlob(ctx, lines)
	if err != nil {
		return err
	}
	err = checkpoint.Commit(ctx, c.store, c.ranks.key, checkpoint.Manifest{
		Generation: c.ranks.key.Generation, Step: step, Checkpoint: ref, Metrics: metrics, CommittedAt: time.Now().UTC(),
	})
	if err != nil {
		return err
	}
	c.done.Store(step)
	c.ranks.node.log.Info("committed", "step", step, "bytes", ref.Bytes)
	return nil
}

// stepsIn lists the checkpoints in a folder: its folders named step-<n>.
func stepsIn(dir string) ([]int64, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var steps []int64
	for _, e := range entries {
		number, ok := strings.CutPrefix(e.Name(), "step-")
		if n, err := strconv.ParseInt(number, 10, 64); ok && err == nil && n > 0 && e.IsDir() {
			steps = append(steps, n)
		}
	}
	return steps, nil
}

// linkTree makes a tree of hard links to the regular files of another.
func linkTree(from, to string) error {
	if err := os.RemoveAll(to); err != nil {
		return err
	}
	return filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		target := filepath.Join(to, rel)
		switch {
		case d.IsDir():
			return os.Mkdir(target, 0o755)
		case d.Type().IsRegular():
			return os.Link(path, target)
		}
		return fmt.Errorf("%s is neither a file nor a folder", path)
	})
}
