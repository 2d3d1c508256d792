package rollout

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/serving/stats"
)

// TestUnansweredRequests: a stage with its samples does not pass before the requests have ended that had begun by then, wherever they are,
// but does not wait for a gateway that has gone.
func TestUnansweredRequests(t *testing.T) {
	stage := weightStage(0.5)
	var state State
	beats := map[string]int64{}
	look := func(settled map[string]int64, silent, closed string) spec.Look {
		t.Helper()
		stage.Elapsed += time.Second
		var now []stats.Snapshot
		for _, epoch := range []string{"a", "b"} {
			if epoch != silent {
				beats[epoch]++
			}
			s := snapshot(epoch, counts(100, 0, time.Millisecond), counts(100, 0, time.Millisecond))
			s.Beat, s.Active, s.Closed = beats[epoch], []string{"1", "2"}, epoch == closed
			s.Revisions[1].Started, s.Revisions[1].Settled = 210+beats[epoch], settled[epoch]
			now = append(now, s)
		}
		var made spec.Look
		state, made, _ = EvaluateStage(stage, state, now, nil)
		state = throughJSON(t, state)
		return made
	}
	expect := func(when string, made spec.Look, decision, reason string) {
		t.Helper()
		if made.Decision != decision || !strings.Contains(made.Reason, reason) {
			t.Errorf("%s: %s, %s; want %s, %q", when, made.Decision, made.Reason, decision, reason)
		}
	}
	// Each had started 211 when the stage had its samples.
	expect("at first", look(map[string]int64{"a": 200, "b": 211}, "", ""), Hold, "waiting for the end of 11 requests")
	expect("later ones do not count", look(map[string]int64{"a": 210, "b": 211}, "", ""), Hold, "waiting for the end of 1 requests")
	before := state
	expect("all have ended", look(map[string]int64{"a": 211, "b": 211}, "", ""), Pass, "")
	state = before
	expect("closed", look(map[string]int64{"a": 210, "b": 211}, "", "a"), Pass, "")
	state = before
	var last spec.Look
	for range 15 {
		last = look(map[string]int64{"a": 210, "b": 211}, "a", "")
	}
	expect("crashed", last, Pass, "")
}

// TestLateFailures: requests that fail after their stage has ended count against the release that they were given to, at every gateway and
// in all later stages; those that both releases fail alike do not.
func TestLateFailures(t *testing.T) {
	for name, c := range map[string]struct {
		keyed             bool
		candidate, stable int
		weight            float64
		decision, reason  string
	}{
		"none":       {weight: 0.6, decision: Pass},
		"both":       {candidate: 40, stable: 40, weight: 0.6, decision: Pass},
		"candidate":  {candidate: 40, weight: 0.6, decision: Abort, reason: "40 requests of earlier stages failed after these had ended"},
		"last stage": {candidate: 40, weight: 1, decision: Abort, reason: "40 requests of earlier stages"},
		"stable":     {stable: 40, weight: 1, decision: Pass},
		"keys":       {keyed: true, candidate: 40, weight: 0.6, decision: Abort, reason: "40 requests of earlier stages"},
		"both keys":  {keyed: true, candidate: 40, stable: 40, weight: 0.6, decision: Pass},
	} {
		t.Run(name, func(t *testing.T) {
			good := counts(150, 0, time.Millisecond)
			began := stats.Keyed{From: 0, To: stats.Cells / 2, First: map[string]stats.Counts{"1": good, "2": good}, WithKey: 300}
			at := func(revision int64, weight float64, keyed stats.Keyed, candidate, stable stats.Counts) stats.Revision {
				r := stats.Revision{
					Revision: revision, Weights: map[string]float64{"1": 1 - weight, "2": weight}, Versions: map[string]stats.Counts{"1": stable, "2": candidate},
				}
				if c.keyed {
					r.Keyed = &keyed
				}
				return r
			}
			stage := weightStage(0.5)
			stage.Keyed = c.keyed
			now := stats.Snapshot{Epoch: "a", Beat: 1, Revision: 7, Revisions: []stats.Revision{at(7, 0.5, began, good, good)}}
			state, look, _ := EvaluateStage(stage, State{}, []stats.Snapshot{now}, nil)
			if look.Decision != Pass {
				t.Fatalf("the first stage: %s, %s", look.Decision, look.Reason)
			}
			state = throughJSON(t, state.NextStage())

			next := weightStage(c.weight)
			next.Revision, next.Keyed = 8, c.keyed
			late := began.Copy()
			for i := range c.candidate {
				late.Erred.Add(i)
			}
			for i := range c.stable {
				late.Erred.Add(stats.Cells - 1 - i)
			}
			failed := func(n int) stats.Counts { return good.Plus(stats.Counts{Requests: int64(n), Failures: int64(n)}) }
			goes := stats.Keyed{From: stats.Cells / 2, To: stats.CellsOf(c.weight), First: map[string]stats.Counts{"1": good.Plus(good), "2": good.Plus(good)}, WithKey: 600}
			now = stats.Snapshot{Epoch: "a", Beat: 2, Revision: 8, Revisions: []stats.Revision{
				at(7, 0.5, late, failed(c.candidate), failed(c.stable)), at(8, c.weight, goes, good, good),
			}}
			for range 2 { // whoever looks again sees the same
				state, look, _ = EvaluateStage(next, state, []stats.Snapshot{now}, nil)
				if look.Decision != c.decision || !strings.Contains(look.Reason, c.reason) {
					t.Errorf("%s, %s; want %s, %q", look.Decision, look.Reason, c.decision, c.reason)
				}
				state = throughJSON(t, state)
			}
			if fmt.Sprint(state.NextStage().Errors.Late) != "0" {
				t.Error("what came late is counted again in the next stage")
			}
		})
	}
}
