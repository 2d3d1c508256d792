package integration

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"

	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/training"
	"github.com/sluiceml/sluice/training/checkpoint"
)

// TestShardOnEachNode trains with PyTorch on nodes that each save their own shard. One of them is killed when all others have committed their
// shards of the newest checkpoint: the training goes on from the one before, and has the losses and the weights of one that nobody struck.
func TestShardOnEachNode(t *testing.T) {
	t.Parallel()
	for _, nodes := range []int{2, 3} {
		t.Run(fmt.Sprint(nodes, " nodes"), func(t *testing.T) { strikeShards(t, nodes) })
	}
}

func strikeShards(t *testing.T, nodes int) {
	s := copyProject(t, "testdata/shards")
	s.hold(25)
	s.hold(45)
	run := s.run(fmt.Sprint("nodes=", nodes), "dir="+s.dir)
	gang := training.Key{Run: run.runID(), Step: "struck", Generation: 1}
	newest := func() int64 {
		steps, err := checkpoint.Steps(t.Context(), s.store(), gang)
		if err != nil {
			t.Fatal(err)
		}
		return slices.Max(append(steps, 0))
	}
	run.await("the commit of step 20", func() bool { return newest() == 20 })

	agent, rank := s.agent(gang, nodes-1), s.rankOf("train.py "+s.dir+"/struck", nodes-1)
	kill(t, agent, syscall.SIGSTOP) // its rank goes on and saves, but nothing of that is committed
	s.release(25)
	run.await("the shards of all other nodes", func() bool {
		next, err := checkpoint.GetNext(t.Context(), s.store(), gang)
		if err != nil {
			t.Fatal(err)
		}
		there, err := checkpoint.Shards(t.Context(), s.store(), gang, next)
		if err != nil {
			t.Fatal(err)
		}
		return next > 20 && len(there) == nodes-1
	})
	kill(t, agent, syscall.SIGKILL)
	kill(t, rank, syscall.SIGKILL)
	s.release(45)
	run.expect(0)

	var calm, struck trainedModel
	steps := s.show(gang.Run).Steps
	steps["calm"].decode(t, &calm)
	steps["struck"].decode(t, &struck)
	for _, g := range struck.Generations {
		t.Logf("generation %d: %s, steps %d-%d: %s", g.Index, g.End, g.FromStep, g.ToStep, g.Reason)
	}
	// Ranks that crash start again from the same step; one such generation more is no matter of this test.
	if g := struck.Generations; len(g) < 2 || g[0].End != spec.EndNodeLost || g[1].FromStep != 20 || g[len(g)-1].End != spec.EndFinished {
		t.Error("want a generation that lost a node, and one that went on from step 20")
	}
	if whole := newest(); whole != 20 {
		t.Errorf("the newest whole checkpoint of generation 1 is of step %d, want 20", whole)
	}
	if diff := differing(s.losses("calm"), s.losses("struck")); diff != "" {
		t.Error(diff)
	}
	want := s.curve(calm.Curve)
	if got := s.curve(struck.Curve); len(want) != 60 || !slices.Equal(got, want) {
		t.Errorf("the curve differs from that of the training that was not struck:\n%v\n%v", got, want)
	}
	if calm.Model.IsZero() || struck.Model.Digest != calm.Model.Digest {
		t.Errorf("the weights are %s, those of the training that was not struck %s", struck.Model.Digest, calm.Model.Digest)
	}
}

// hold has the training that is struck wait before a step, until that is released.
func (s *sandbox) hold(step int) {
	s.t.Helper()
	write(s.t, s.heldBy(step), "")
}

func (s *sandbox) release(step int) {
	s.t.Helper()
	if err := os.Remove(s.heldBy(step)); err != nil {
		s.t.Fatal(err)
	}
}

func (s *sandbox) heldBy(step int) string {
	return filepath.Join(s.dir, fmt.Sprint("struck.hold-", step))
}
