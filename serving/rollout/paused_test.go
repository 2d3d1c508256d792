package rollout

import (
	"strings"
	"testing"

	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/serving/stats"
)

// TestPausedStage: with all its samples it does not pass, and is not aborted for its checks; the error test still ends it.
func TestPausedStage(t *testing.T) {
	checked := false
	checks := func(spec.SideCounts, spec.SideCounts, spec.Delta) []spec.Check {
		checked = true
		return []spec.Check{{Expression: "candidate.p99_ms < 1", Verdict: spec.VerdictFail}}
	}
	stage := weightStage(0.5)
	stage.Spec.MinSamples, stage.Spec.Checks, stage.Paused = 10, []spec.Expr{"candidate.p99_ms < 1"}, true
	look := func(candidate, stable stats.Counts) spec.Look {
		_, look, _ := EvaluateStage(stage, State{}, []stats.Snapshot{snapshot("e", candidate, stable)}, checks)
		return look
	}
	if got := look(counts(500, 0, 0), counts(500, 0, 0)); got.Decision != Hold || !strings.Contains(got.Reason, "paused, with 500 of 19 answers") || checked {
		t.Errorf("a paused stage with its samples: %s, %s; checked: %v", got.Decision, got.Reason, checked)
	}
	if got := look(counts(500, 100, 0), counts(500, 0, 0)); got.Decision != Abort {
		t.Errorf("a paused stage with a bad candidate: %s, %s", got.Decision, got.Reason)
	}
	stage.Paused = false
	if got := look(counts(500, 0, 0), counts(500, 0, 0)); got.Decision != Abort || !checked {
		t.Errorf("the stage after the pause: %s, %s; checked: %v", got.Decision, got.Reason, checked)
	}
}
