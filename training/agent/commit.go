package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/artifact"
	"github.com/sluiceml/sluice/internal/script"
	"github.com/sluiceml/sluice/internal/telemetry"
	"github.com/sluiceml/sluice/store"
	"github.com/sluiceml/sluice/training/checkpoint"
)

const (
	// commitPause is the pause after a commit that failed.
	commitPause = 2 * time.Second
	// progressEvery is how often the last step is written to the store, in case the node is lost.
	progressEvery = time.Second
)

// uploadLimit bounds the upload of so many bytes, so that one that hangs is tried again: no store that can be trained with is slower.
func uploadLimit(bytes int64) time.Duration {
	const latency, bytesPerSecond = 30 * time.Minute, 1 << 20
	return latency + time.Duration(bytes/bytesPerSecond)*time.Second
}

// committer commits checkpoints while training goes on: always the newest that is complete and not committed yet. Node 0 does this; of
// sharded checkpoints, each node commits its part.
type committer struct {
	store    *store.Store
	ranks    *ranks
	layout   layout
	settling settling
	arrivals *arrivals
	nodes    int          // of the gang
	shards   *sharding    // nil where node 0 commits alone
	done     atomic.Int64 // the newest committed checkpoint's number, at first that of the one resumed from
	reached  atomic.Int64 // the step of the metrics that it was written after
	epochs   bool         // the numbers of checkpoints are other ones than the steps of the metrics
	numbered int64        // the last checkpoint that was looked at for this, and
	arrived  int64        // at which step it came
	failing  atomic.Value // a string: why the last attempt to commit failed, empty if it did not
	said     int64        // the last step in the progress record
	kept     string       // the links to the newest committed checkpoint, for a next generation on this node
}

func newCommitter(s *store.Store, r *ranks, nodes int) *committer {
	layout := r.p.spec.Checkpoint.Layout
	c := &committer{store: s, ranks: r, layout: layoutOf(layout), settling: settling{}, arrivals: watchArrivals(r), nodes: nodes}
	c.done.Store(r.p.seal.FromCheckpoint())
	c.reached.Store(r.p.seal.FromStep())
	c.numbered, c.arrived = c.done.Load(), c.reached.Load()
	c.epochs = c.numbered != c.arrived
	if layout == spec.LayoutSharded && nodes > 1 {
		c.shards = &sharding{mine: r.p.seal.FromCheckpoint()}
	}
	return c
}

// commits reports whether this node commits anything.
func (c *committer) commits() bool { return c.ranks.p.index == 0 || c.shards != nil }

func (c *committer) committed() int64 { return c.reached.Load() }

// arrival returns between which steps of the metrics a checkpoint was written, if the number in its name is clearly another one, such as that
// of an epoch; else zero. A checkpoint that is written while training goes on arrives late, but hardly later than the one after it is begun.
func (c *committer) arrival(w written) (from, to int64) {
	at := c.arrivals.of(w.name)
	if at.from == 0 && at.to == 0 {
		return 0, 0
	}
	late := time.Duration(0)
	if c.numbered == c.ranks.p.seal.FromCheckpoint() { // nothing to compare it with
		late = 30 * time.Second
	}
	c.epochs = c.epochs || at.from-c.arrived > 4*(w.step-c.numbered)+c.ranks.metrics.within(late)
	c.numbered, c.arrived = w.step, at.from
	if !c.epochs {
		return 0, 0
	}
	return at.from, at.to
}

// failure returns why the last attempt to commit failed. It is empty if it did not.
func (c *committer) failure() string {
	why, _ := c.failing.Load().(string)
	return why
}

// loop commits until quit is closed.
func (c *committer) loop(quit <-chan struct{}) {
	if !c.commits() {
		return
	}
	look := time.Tick(lookEvery)
	progress := time.NewTicker(progressEvery)
	defer progress.Stop()
	ctx := context.Background()
	for {
		select {
		case <-quit:
			return
		case <-progress.C:
			c.progress(ctx)
		case <-look:
			err := c.newest(ctx, false)
			if err == nil {
				c.failing.Store("")
				continue
			}
			c.failing.Store(err.Error())
			c.ranks.node.log.Error("commit failed, retrying", "error", err)
			select {
			case <-quit:
				return
			case <-time.After(commitPause):
			}
		}
	}
}

// last commits what the ranks left behind when they ended. together is true if the ranks of the other nodes end, too, so that their parts
// will follow.
func (c *committer) last(ctx context.Context, together bool) error {
	if !c.commits() {
		return nil
	}
	c.progress(ctx)
	if c.shards != nil {
		return c.lastShards(ctx, together)
	}
	return c.newest(ctx, true)
}

func (c *committer) progress(ctx context.Context) {
	now := c.ranks.metrics.state()
	if now.Step == c.said || c.ranks.p.index != 0 {
		return
	}
	p := checkpoint.Progress{Step: now.Step, Of: now.Of, At: now.At, FirstStep: now.FirstStep, FirstAt: now.FirstAt, Began: c.ranks.metrics.began()}
	if err := checkpoint.PutProgress(ctx, c.store, c.ranks.key, p); err != nil {
		c.ranks.node.log.Warn("progress could not be recorded", "error", err)
		return
	}
	c.said = now.Step
}

// newest commits the newest complete checkpoint, if it is newer than what is committed.
func (c *committer) newest(ctx context.Context, ended bool) error {
	next := func() (written, error) { return c.after(c.done.Load(), ended) }
	if c.shards != nil {
		next = func() (written, error) { return c.nextShard(ctx, ended) }
	}
	w, err := next()
	if err != nil || w == (written{}) {
		return err
	}
	return c.put(ctx, w)
}

// put commits a checkpoint, or gives up in favor of a newer one.
func (c *committer) put(ctx context.Context, w written) error {
	before, err := shapeOf(filepath.Join(c.ranks.p.dirs.checkpoints, w.name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil // deleted in the meantime: there is a newer one
	} else if err != nil {
		return fmt.Errorf("commit %s: %w", w.name, err)
	}
	ctx, cancel := context.WithTimeout(ctx, uploadLimit(before.bytes))
	defer cancel()
	ctx, giveWay := context.WithCancelCause(ctx)
	defer giveWay(nil)
	committed, watched := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(watched)
		c.watchNewer(w.step, committed, giveWay)
	}()
	began := time.Now()
	err = c.commit(ctx, w, before)
	close(committed)
	<-watched
	switch {
	case err == nil:
		return nil
	case errors.Is(context.Cause(ctx), errNewer):
		c.count("superseded", 0, began)
		c.ranks.node.log.Info("a newer checkpoint is committed instead", "step", w.step)
		return nil
	}
	c.count("failed", 0, began)
	if errors.Is(err, store.ErrFull) { // the reason first, since what follows is long
		err = fmt.Errorf("there is no space left in %s: %w", c.store.URL(), err)
	}
	return fmt.Errorf("commit %s: %w", w.name, err)
}

// after finds the newest complete checkpoint that is later than a step, or returns the zero value. ended is true if the ranks have ended
// and nothing is still being written.
func (c *committer) after(step int64, ended bool) (written, error) {
	found, err := c.layout.find(c.ranks.p.dirs.checkpoints)
	for _, w := range found {
		if w.step <= step {
			break
		}
		if c.isComplete(w, ended) {
			return w, nil
		}
	}
	return written{}, err
}

// isComplete reports whether a checkpoint is complete. One that was renamed is. Of one that is written in place, nothing may have changed for
// some time, and no process may have a file of it open for writing; once the ranks have ended, it is as they left it.
func (c *committer) isComplete(w written, ended bool) bool {
	path := filepath.Join(c.ranks.p.dirs.checkpoints, w.name)
	if !c.layout.whole(path, w.step) {
		return false
	}
	if !c.layout.inPlace && c.arrivals.of(w.name).renamed {
		return true
	}
	if ended {
		return wholeFiles(path) && (c.layout.isProof(path) || !c.ranks.brokeOff(path))
	}
	return c.settling.settled(path, time.Now()) && wholeFiles(path) && !c.ranks.areWriting(path)
}

// errNewer cancels a commit for which there is no time left.
var errNewer = errors.New("there is a newer checkpoint")

// watchNewer cancels the commit of a step as soon as there is a newer checkpoint, once the ranks have been told to stop. They write that
// one at the end, and only the grace period is left to commit it.
func (c *committer) watchNewer(step int64, committed <-chan struct{}, giveWay context.CancelCauseFunc) {
	for look := time.Tick(lookEvery); ; {
		select {
		case <-committed:
			return
		case <-look:
		}
		if !c.ranks.wasTold() || c.shards != nil && c.ranks.isBereft() {
			continue // a node that is gone has no part of a newer checkpoint
		}
		if w, err := c.after(step, isClosed(c.ranks.proc.Done())); err == nil && w != (written{}) {
			giveWay(errNewer)
			return
		}
	}
}

// count counts an upload that has ended.
func (c *committer) count(outcome string, bytes int64, began time.Time) {
	counters := c.ranks.node.counters
	counters.Add(telemetry.NodeCommits.Name, map[string]string{"outcome": outcome}, 1)
	counters.Add(telemetry.NodeCommitBytes.Name, nil, float64(bytes))
	counters.Add(telemetry.NodeCommitTime.Name, nil, time.Since(began).Seconds())
}

// commit hard-links the checkpoint, so that the script may delete its own, uploads it with the metrics up to its step, and writes the
// manifest last. before is what the checkpoint looked like at first.
func (c *committer) commit(ctx context.Context, w written, before shape) error {
	began := time.Now()
	own := filepath.Join(c.ranks.p.dirs.commits, w.name)
	defer func() {
		if c.kept != own {
			c.drop(own)
		}
	}()
	target := own
	if c.layout.inPlace { // the framework wants it back under its own name
		target = filepath.Join(own, w.name)
	}
	source := filepath.Join(c.ranks.p.dirs.checkpoints, w.name)
	err := linkTree(source, target)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // deleted in the meantime: there is a newer one
	} else if err != nil {
		return err
	}
	part := checkpoint.Part(c.store, c.ranks.key, w.step)
	ref, err := part.PutTree(ctx, artifact.Checkpoint, own, nil, nil)
	if err != nil {
		return err
	}
	after, err := shapeOf(source)
	if errors.Is(err, fs.ErrNotExist) {
		after, err = shapeOf(target)
	}
	if err != nil {
		return err
	} else if after != before {
		c.arrivals.changed(w.name)
		c.ranks.node.log.Warn("a checkpoint changed while it was uploaded, so it is not committed yet", "step", w.step)
		return nil
	}
	from, to := c.arrival(w)
	metrics, err := c.putMetrics(ctx, part, target, cmp.Or(to, w.step))
	if err != nil {
		return err
	}
	if c.shards != nil {
		err = c.commitShard(ctx, w.step, checkpoint.Shard{Files: ref, Metrics: metrics, Reported: from})
	} else {
		m := c.manifest(w.step)
		m.Reported = from
		m.Checkpoint, m.Metrics, m.CommittedAt, m.Ranks = ref, metrics, time.Now().UTC(), c.nodes*c.ranks.launch.ranks
		if err = checkpoint.Commit(ctx, c.store, c.ranks.key, m); err == nil {
			c.done.Store(w.step)
			c.reached.Store(m.Reached())
		}
	}
	if err != nil {
		return err
	}
	c.drop(c.kept)
	c.kept = own
	c.count("committed", ref.Bytes, began)
	c.ranks.node.log.Info("committed", "step", w.step, "bytes", ref.Bytes)
	return nil
}

// manifest returns what all nodes know about the commit of a step.
func (c *committer) manifest(step int64) checkpoint.Manifest {
	sp := c.ranks.p.spec.Checkpoint
	return checkpoint.Manifest{
		Generation: c.ranks.key.Generation, Step: step, Layout: cmp.Or(sp.Layout, spec.LayoutFolder), Nodes: c.nodes, Reshard: sp.Reshard,
	}
}

// putMetrics stores the metrics up to a step, including those that the framework recorded in its checkpoint. Only node 0 has metrics.
func (c *committer) putMetrics(ctx context.Context, part *store.Store, path string, step int64) (digest string, err error) {
	if c.ranks.p.index != 0 {
		return "", nil
	}
	if c.layout.notes != nil {
		noted, err := c.layout.notes(c.ranks.p, path, step)
		if err == nil {
			err = c.ranks.metrics.feed(noted)
		}
		if err != nil { // not a reason to fail the commit
			c.ranks.node.log.Warn("the framework's record of its steps could not be read", "step", step, "error", err)
		}
	}
	lines, err := c.ranks.metrics.upTo(step)
	if err != nil {
		return "", err
	}
	defer lines.Close()
	digest, _, err = part.PutBlob(ctx, lines)
	return digest, err
}

// drop removes the links to a checkpoint; "" is none.
func (c *committer) drop(own string) {
	if own == "" {
		return
	}
	c.ranks.node.near.Forget(own)
	if err := script.RemoveFolder(own); err != nil {
		c.ranks.node.log.Warn("the links to a committed checkpoint could not be removed", "error", err)
	}
}

// linkTree makes a tree of hard links to the files of another tree, which may also be a single file. Anything other than folders and
// regular files is an error.
func linkTree(from, to string) error {
	if err := script.RemoveFolder(to); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
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
