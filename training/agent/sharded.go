package agent

import (
	"cmp"
	"context"
	"errors"
	"os"
	"slices"
	"sync/atomic"
	"time"

	"github.com/sluiceml/sluice/internal/fault"
	"github.com/sluiceml/sluice/training/checkpoint"
)

const (
	// askEvery is how often a node asks the store about the progress of the others while its ranks run.
	askEvery = time.Second
	// peersLimit is how long node 0 waits for the parts of the others, after its own, before it goes on to a newer checkpoint. Parts that come
	// later count all the same.
	peersLimit = time.Minute
	// lastWait is the least time that it waits for them when the ranks have ended. It waits longer if its own part took longer, because all
	// parts are of about the same size.
	lastWait = 5 * time.Second
	// emptyLimit is how long a node may write nothing at all after node 0 has its first checkpoint. By then it has at least begun even a part
	// that takes longer to write.
	emptyLimit = 10 * time.Minute
)

// sharding is what a node knows of the commits of sharded checkpoints. Node 0 decides which step comes next. Each node commits its part of
// that step, and a node that sees all parts joins them.
type sharding struct {
	mine       int64     // the newest step whose part this node has committed
	mineAt     time.Time // since when
	reported   int64     // the shard's
	askedAt    time.Time
	emptySince time.Time // since when node 0 has had a checkpoint, and this node not even the beginning of one

	refused atomic.Pointer[error] // why checkpoints cannot be committed at all
}

// refusal returns why checkpoints cannot be committed at all, or nil. It is the user's error.
func (c *committer) refusal() error {
	if c.shards == nil {
		return nil
	}
	if r := c.shards.refused.Load(); r != nil {
		return *r
	}
	return nil
}

func (c *committer) refuse(err error) { c.shards.refused.CompareAndSwap(nil, &err) }

// nextShard finds the checkpoint of which this node commits its part next, or returns the zero value. If ended is true, nothing is still
// being written, and it takes the newest checkpoint.
func (c *committer) nextShard(ctx context.Context, ended bool) (written, error) {
	sh := c.shards
	if ended {
		w, err := c.after(sh.mine, true)
		if err == nil && w != (written{}) && c.ranks.p.index == 0 {
			err = checkpoint.PutNext(ctx, c.store, c.ranks.key, w.step)
		}
		return w, err
	}
	if time.Since(sh.askedAt) < askEvery {
		return written{}, nil
	}
	sh.askedAt = time.Now()
	if err := c.join(ctx); err != nil {
		return written{}, err
	}
	if c.ranks.p.index > 0 {
		return c.asked(ctx)
	}
	w, err := c.after(sh.mine, false)
	if err != nil || w == (written{}) || sh.mine > c.done.Load() && time.Since(sh.mineAt) < peersLimit {
		return written{}, err
	}
	return w, checkpoint.PutNext(ctx, c.store, c.ranks.key, w.step)
}

// asked finds the checkpoint that node 0 commits, if this node has its part and has not committed it yet.
func (c *committer) asked(ctx context.Context) (written, error) {
	sh := c.shards
	found, err := c.layout.find(c.ranks.p.dirs.checkpoints)
	begun := sh.mine > c.ranks.p.seal.FromCheckpoint()
	if err != nil || begun && (len(found) == 0 || found[0].step <= sh.mine) {
		return written{}, err
	}
	step, err := checkpoint.GetNext(ctx, c.store, c.ranks.key)
	if err != nil || step <= sh.mine {
		return written{}, err
	}
	w := of(found, step)
	if w == (written{}) && !begun {
		c.checkEmpty(step)
	}
	if w != (written{}) && !c.isComplete(w, false) {
		return written{}, nil
	}
	return w, nil
}

// checkEmpty fails a node that writes no part of any checkpoint, because no checkpoint would ever be complete.
func (c *committer) checkEmpty(step int64) {
	entries, err := os.ReadDir(c.ranks.p.dirs.checkpoints)
	switch {
	case err != nil || len(entries) > len(c.ranks.p.linked):
		c.shards.emptySince = time.Time{}
	case c.shards.emptySince.IsZero():
		c.shards.emptySince = time.Now()
	case time.Since(c.shards.emptySince) >= emptyLimit:
		c.refuse(fault.Errorf(fault.User,
			"node %d has written nothing to $SLUICE_CHECKPOINT_DIR, and node 0 had checkpoint step-%d %s ago: with `layout: sharded` every node must "+
				"write a folder step-<n> with its part; if rank 0 writes the whole checkpoint, use `layout: folder`", c.ranks.p.index, step, emptyLimit))
	}
}

// commitShard records this node's part.
func (c *committer) commitShard(ctx context.Context, step int64, shard checkpoint.Shard) error {
	shard.Node, shard.Ranks, shard.CommittedAt = c.ranks.p.index, c.ranks.launch.ranks, time.Now().UTC()
	if err := checkpoint.CommitShard(ctx, c.store, c.ranks.key, step, shard); err != nil {
		return err
	}
	c.shards.mine, c.shards.mineAt, c.shards.reported = step, time.Now(), shard.Reported
	return c.join(ctx)
}

// join commits the newest checkpoint of which this node has committed its part, if the others have too.
func (c *committer) join(ctx context.Context) error {
	_, err := c.joined(ctx)
	return err
}

// joined is join, and returns the nodes that have committed their parts.
func (c *committer) joined(ctx context.Context) ([]int, error) {
	step := c.shards.mine
	if step <= c.done.Load() {
		return nil, nil
	}
	nodes, err := checkpoint.Shards(ctx, c.store, c.ranks.key, step)
	if err != nil || len(nodes) < c.nodes {
		return nodes, err
	}
	err = checkpoint.Join(ctx, c.store, c.ranks.key, c.manifest(step))
	if conflict, ok := errors.AsType[*checkpoint.ShardConflict](err); ok {
		c.refuse(fault.Errorf(fault.User, "%s: the parts are put into one folder, so put the rank into the names of files that differ, as in shard-$RANK.pt",
			conflict))
		return nodes, nil
	} else if err != nil {
		return nodes, err
	}
	c.whole(step)
	c.ranks.node.log.Info("all parts are committed", "step", step, "nodes", c.nodes)
	return nodes, nil
}

// lastShards commits this node's part of what the ranks left behind. Node 0 then waits for the parts of the others, where those can be
// expected, so that it can say what is committed.
func (c *committer) lastShards(ctx context.Context, together bool) error {
	began := time.Now()
	err := c.join(ctx)
	if err == nil {
		err = c.finishAsked(ctx, together)
	}
	if err == nil {
		err = c.newest(ctx, true)
	}
	if err != nil || c.ranks.p.index > 0 {
		return err
	}
	until := time.Now().Add(max(lastWait, time.Since(began)))
	for tick := time.Tick(lookEvery); together && time.Now().Before(until); <-tick {
		nodes, err := c.joined(ctx)
		if err != nil {
			return err
		}
		if c.shards.mine <= c.done.Load() || c.refusal() != nil || c.ranks.lacks(nodes) {
			break
		}
	}
	return c.readWhole(ctx)
}

// readWhole reads which commit is the newest. Another node may have completed one that this node no longer waits for.
func (c *committer) readWhole(ctx context.Context) error {
	steps, err := checkpoint.Steps(ctx, c.store, c.ranks.key)
	if err == nil && len(steps) > 0 && steps[len(steps)-1] > c.done.Load() {
		c.whole(steps[len(steps)-1])
	}
	return err
}

// whole notes that all nodes have committed a checkpoint. Its step is that of the metrics only where this node had its part.
func (c *committer) whole(step int64) {
	c.done.Store(step)
	if step == c.shards.mine {
		step = cmp.Or(c.shards.reported, step)
	}
	c.reached.Store(step)
}

// finishAsked commits this node's part of the step that all nodes were to commit next. If all nodes were told to stop, there is no time for
// that: they agree on a newer step, or already have one.
func (c *committer) finishAsked(ctx context.Context, together bool) error {
	if together && !c.ranks.isBereft() {
		return nil
	}
	step, err := checkpoint.GetNext(ctx, c.store, c.ranks.key)
	if err != nil || step <= c.shards.mine {
		return err
	}
	found, err := c.layout.find(c.ranks.p.dirs.checkpoints)
	if w := of(found, step); err == nil && w != (written{}) && c.isComplete(w, true) {
		err = c.put(ctx, w)
	}
	return err
}

// of returns the checkpoint of a step among those that were found, or the zero value.
func of(found []written, step int64) written {
	if i := slices.IndexFunc(found, func(w written) bool { return w.step == step }); i >= 0 {
		return found[i]
	}
	return written{}
}

// noteOver records which nodes commit nothing more.
func (r *ranks) noteOver(nodes []int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lost = nodes
}

// isBereft reports whether some node commits nothing more, so that a checkpoint that lacks its part can no longer be completed.
func (r *ranks) isBereft() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.lost) > 0
}

// lacks reports whether a node that is not in nodes, and so has not committed its part, commits nothing more.
func (r *ranks) lacks(nodes []int) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.ContainsFunc(r.lost, func(node int) bool { return !slices.Contains(nodes, node) })
}
