package integration

import (
	"slices"
	"strings"
	"testing"

	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/artifact"
)

// TestDDP runs the example of a training on spot nodes, with a rank that is slower than the other.
func TestDDP(t *testing.T) {
	t.Parallel()
	s := copyProject(t, "../examples/ddp")
	s.edit("train.py", "time.sleep(0.03)", "time.sleep(0.02 + 0.04 * rank)")
	run := s.run()
	out := s.trained(run)
	spot, interrupted := 0, 0
	for _, g := range out.Generations {
		if g.Capacity == spec.CapacitySpot {
			spot++
		}
		if g.End == spec.EndNotice || g.End == spec.EndNodeLost {
			interrupted++
		}
		if g.End == spec.EndNotice && g.StepsLost > 0 {
			t.Errorf("generation %d lost %d steps though it had notice", g.Index, g.StepsLost)
		}
	}
	last := out.Generations[len(out.Generations)-1]
	if spot == 0 || interrupted == 0 || last.End != spec.EndFinished {
		t.Errorf("%d generations were on spot, and %d were interrupted", spot, interrupted)
	}
	if out.Steps != 300 || out.Late || out.CostUSD == 0 {
		t.Errorf("%d steps, late: %v, $%g", out.Steps, out.Late, out.CostUSD)
	}
	// One that began at the last step, or shortly before it, has measured too little.
	if !slices.ContainsFunc(out.Generations, func(g spec.Generation) bool { return strings.HasPrefix(g.Slow, "node 1: rank 1 works ") }) {
		t.Errorf("no generation names its slow node: %+v", out.Generations)
	}
	shown := s.start("show", run.runID(), "fit").expect(0)
	shown.says("slow: node 1: rank 1 works ")
}

// trainedModel are the outputs of the step.
type trainedModel struct {
	spec.TrainOutput
	Model artifact.Ref `json:"model"`
}

// trained waits for a run to succeed.
func (s *sandbox) trained(run *command) trainedModel {
	s.t.Helper()
	run.expect(0)
	var out trainedModel
	s.show(run.runID()).Steps["fit"].decode(s.t, &out)
	for _, g := range out.Generations {
		s.t.Logf("generation %d: %s, steps %d-%d, committed %d, lost %d, %.1f s: %s",
			g.Index, g.End, g.FromStep, g.ToStep, g.CommittedStep, g.StepsLost, g.EndedAt.Sub(g.StartedAt).Seconds(), g.Reason)
	}
	s.t.Logf("%d steps, %d lost, loss %v, model %s", out.Steps, out.StepsLost, out.Metrics["loss"], out.Model.Digest)
	return out
}
