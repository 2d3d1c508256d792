package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sluiceml/sluice/internal/artifact"
	"github.com/sluiceml/sluice/store"
	"github.com/sluiceml/sluice/training"
)

// Shard is the record of one node's part of a sharded checkpoint. Its files are in the part of the store of the commit.
type Shard struct {
	Node int `json:"node"`
	// Ranks is how many ranks the node has.
	Ranks int `json:"ranks"`
	// Files is the folder that the node's ranks wrote.
	Files artifact.Ref `json:"files"`
	// Metrics is the blob of all metrics lines up to the step; only of node 0.
	Metrics string `json:"metrics,omitempty"`
	// Reported is that of the manifest; only of node 0.
	Reported    int64     `json:"reported,omitempty"`
	CommittedAt time.Time `json:"committed_at"`
}

// ShardConflict says that two nodes wrote different files under the same path, so that their parts cannot be one checkpoint.
type ShardConflict struct {
	Step  int64
	Path  string
	Nodes [2]int
}

func (e *ShardConflict) Error() string {
	return fmt.Sprintf("nodes %d and %d both wrote %s in their part of checkpoint step-%d, with different content", e.Nodes[0], e.Nodes[1], e.Path, e.Step)
}

// shardMark is between the step and the node in the name of a part's record.
const shardMark = ".node-"

func shardPrefix(k training.Key, step int64) string { return partName(k, step) + shardMark }

func shardKey(k training.Key, step int64, node int) string {
	return shardPrefix(k, step) + strconv.Itoa(node) + ".json"
}

// CommitShard records a node's part, after its files. To do it again changes nothing.
func CommitShard(ctx context.Context, s *store.Store, k training.Key, step int64, shard Shard) error {
	return putOnce(ctx, s, shardKey(k, step, shard.Node), shard)
}

// Shards lists the nodes whose parts of a checkpoint have been recorded, rising.
func Shards(ctx context.Context, s *store.Store, k training.Key, step int64) ([]int, error) {
	prefix := shardPrefix(k, step)
	var nodes []int
	for info, err := range s.Driver().List(ctx, prefix) {
		if err != nil {
			return nil, fmt.Errorf("list the parts of step %d: %w", step, err)
		}
		if node, err := strconv.Atoi(strings.TrimSuffix(strings.TrimPrefix(info.Key, prefix), ".json")); err == nil {
			nodes = append(nodes, node)
		}
	}
	slices.Sort(nodes)
	return nodes, nil
}

// Join commits a checkpoint of several nodes whose parts have all been recorded, as one whose files are those of all; m has what the nodes
// know of it without the parts. Any node may do it, and several at the same time. The error is a *ShardConflict where they cannot be one.
func Join(ctx context.Context, s *store.Store, k training.Key, m Manifest) error {
	refs := make([]artifact.Ref, m.Nodes)
	for node := range refs {
		var shard Shard
		if err := s.GetJSON(ctx, shardKey(k, m.Step, node), &shard); err != nil {
			return fmt.Errorf("the part of node %d: %w", node, err)
		}
		refs[node] = shard.Files
		m.Ranks += shard.Ranks
		if node == 0 {
			m.Metrics, m.Reported = shard.Metrics, shard.Reported
		}
		if shard.CommittedAt.After(m.CommittedAt) {
			m.CommittedAt = shard.CommittedAt
		}
	}
	var err error
	m.Checkpoint, err = m.part(s, k).MergeTrees(ctx, refs)
	if conflict, ok := errors.AsType[*store.MergeConflict](err); ok {
		return &ShardConflict{m.Step, conflict.Path, conflict.Trees}
	} else if err != nil {
		return err
	}
	return Commit(ctx, s, k, m)
}

// next is what the nodes of a generation commit next.
type next struct {
	Step int64 `json:"step"`
}

func nextKey(k training.Key) string { return path.Join(generation(k), "next.json") }

// PutNext records the step of which the nodes of a generation commit their parts next. Only node 0 calls it: if each node chose its newest,
// no step might ever be complete.
func PutNext(ctx context.Context, s *store.Store, k training.Key, step int64) error {
	return s.PutJSON(ctx, nextKey(k), next{step}, store.WriteOptions{})
}

// GetNext returns what PutNext said; 0 is nothing yet.
func GetNext(ctx context.Context, s *store.Store, k training.Key) (int64, error) {
	var n next
	err := s.GetJSON(ctx, nextKey(k), &n)
	if gone(err) {
		return 0, nil
	}
	return n.Step, err
}
