package rollout

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/serving/stats"
)

func keyedStage(held, weight float64) (Stage, stats.Keyed) {
	s := weightStage(weight)
	s.Keyed = true
	return s, stats.Keyed{From: stats.CellsOf(held), To: stats.CellsOf(weight)}
}

// keyedSnapshot is a gateway's of the stage.
func keyedSnapshot(epoch string, k stats.Keyed, candidate, stable stats.Counts) stats.Snapshot {
	k.First = map[string]stats.Counts{"1": stable, "2": candidate}
	return stats.Snapshot{Epoch: epoch, Revision: 7, Revisions: []stats.Revision{{
		Revision: 7, Weights: map[string]float64{"1": 0.5, "2": 0.5}, Versions: map[string]stats.Counts{"1": stable, "2": candidate}, Keyed: &k,
	}}}
}

// TestKeysAtSeveralGateways: whichever gateways answered a key how often, and whichever of them ended and began anew, it is one of the errors,
// on the side of its release.
//
// promise: docs/rollouts.md#p-ro-sticky-replicas
func TestKeysAtSeveralGateways(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		stage, from := keyedStage(0.05, 0.25)
		stage.Spec.MinSamples = 1 << 40
		cells := rapid.SliceOf(rapid.IntRange(from.From, stats.Cells-1))
		erred := map[int]bool{}
		counted := map[string]stats.Keyed{}
		var state State
		for range rapid.IntRange(1, 6).Draw(t, "looks") {
			var now []stats.Snapshot
			for epoch := range rapid.IntRange(1, 4).Draw(t, "gateways") {
				name := fmt.Sprint(epoch)
				k, ok := counted[name]
				if !ok {
					k = from
				}
				for _, c := range cells.Draw(t, "errors") {
					erred[c] = true
					k.Erred = k.Erred.Union(stats.CellSet{})
					k.Erred.Add(c)
				}
				counted[name] = k
				now = append(now, keyedSnapshot(name, k, stats.Counts{}, stats.Counts{}))
			}
			state, _, _ = EvaluateStage(stage, state, now, nil)
			state = throughJSON(t, state)
		}
		var want stats.Split
		for c := range erred {
			if c < from.To {
				want.Candidate++
			} else {
				want.Stable++
			}
		}
		want.Share = 0.2 / 0.95
		got := state.Errors.Stage
		if e := stats.LogEvidence(want.Candidate, want.Stable, want.Share); got < e-1e-6 || got > e+1e-6 {
			t.Fatalf("ln E = %v, want %v for %+v", got, e, want)
		}
	})
}

func TestKeyedDecisions(t *testing.T) {
	ms := time.Millisecond
	candidate := func(k stats.Keyed, n int) stats.Keyed {
		for i := range n {
			k.Erred.Add(k.From + i)
		}
		return k
	}
	stable := func(k stats.Keyed, n int) stats.Keyed {
		for i := range n {
			k.Erred.Add(stats.Cells - 1 - i)
		}
		return k
	}
	stage, none := keyedStage(0.05, 0.25)
	slow := stage
	slow.Tests.Latency = spec.LatencyTest{Quantile: 0.9, Ratio: 1.2}
	shadow, unsplit := keyedStage(0, 0)
	shadow.Spec.Shadow, shadow.Spec.Weight = 1, 0
	mirrored := func(candidateOnly, stableOnly int64) stats.Snapshot {
		unsplit.CandidateOnly, unsplit.StableOnly = candidateOnly, stableOnly
		s := keyedSnapshot("a", unsplit, stats.Counts{}, counts(100, 0, ms))
		s.Revisions[0].Shadow = &stats.Shadow{Version: "2", Mirrored: 1000, Samples: 1000, Agree: 900, CandidateOnly: 100}
		return s
	}
	for _, tc := range []struct {
		name     string
		stage    Stage
		now      []stats.Snapshot
		decision string
		reason   string
	}{
		{"too few keys", stage, []stats.Snapshot{keyedSnapshot("a", none, counts(99, 0, ms), counts(300, 0, ms))}, Hold, "99 of 100 keys"},
		{"enough keys", stage, []stats.Snapshot{keyedSnapshot("a", none, counts(60, 0, ms), counts(300, 0, ms)), keyedSnapshot("b", none, counts(60, 0, ms), counts(300, 0, ms))}, Pass, ""},
		{"as many errors as its share", stage, []stats.Snapshot{keyedSnapshot("a", stable(candidate(none, 21), 79), counts(99, 21, ms), counts(300, 79, ms))}, Hold, ""},
		{"more errors", stage, []stats.Snapshot{keyedSnapshot("a", candidate(none, 30), counts(99, 30, ms), counts(300, 40, ms)), keyedSnapshot("b", stable(candidate(none, 5), 40), counts(99, 5, ms), counts(300, 0, ms))}, Abort, "of 70 keys with errors 30 got them from the candidate, which would have about 21.1%"},
		{"a gateway that does not count by key", stage, []stats.Snapshot{snapshot("a", counts(500, 500, ms), counts(500, 0, ms))}, Hold, "0 of 100 keys"},
		{"slower", slow, []stats.Snapshot{keyedSnapshot("a", none, counts(99, 0, 9*ms), counts(300, 0, ms))}, Abort, "slower"},
		{"as fast", slow, []stats.Snapshot{keyedSnapshot("a", none, counts(99, 0, ms), counts(300, 0, ms))}, Hold, ""},
		{"mirrored requests of few keys", shadow, []stats.Snapshot{mirrored(5, 3)}, Pass, "1000 answers compared"},
		{"mirrored keys", shadow, []stats.Snapshot{mirrored(60, 10)}, Abort, "of 70 keys with errors 60"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, look, _ := EvaluateStage(tc.stage, State{}, tc.now, nil)
			if look.Decision != tc.decision || !strings.Contains(look.Reason, tc.reason) {
				t.Errorf("%s: %s, want %s with %q", look.Decision, look.Reason, tc.decision, tc.reason)
			}
		})
	}
}

// TestKeyedStagesAreApart: evidence of a stage is not carried to the next, which has its own part of alpha.
func TestKeyedStagesAreApart(t *testing.T) {
	stage, k := keyedStage(0, 0.05)
	for i := range 20 {
		k.Erred.Add(i)
	}
	state, look, _ := EvaluateStage(stage, State{}, []stats.Snapshot{keyedSnapshot("a", k, stats.Counts{}, stats.Counts{})}, nil)
	if look.EValue < 1 || look.Alpha != defaultAlpha/2 {
		t.Fatalf("e-value %v at alpha %v", look.EValue, look.Alpha)
	}
	if state = state.NextStage(); len(state.Cells) > 0 {
		t.Errorf("the next stage knows of %d revisions", len(state.Cells))
	}
	stage, k = keyedStage(0.05, 0.25)
	stage.Revision = 8
	if _, look, _ = EvaluateStage(stage, state, nil, nil); look.EValue != 1 {
		t.Errorf("the next stage begins with the e-value %v", look.EValue)
	}
}

// TestLossesByKey: losses are compared by key, whatever all requests were off by, and those of two gateways, which may be of the same keys, are
// not added up. Mirrored keys count in the same way.
//
// promise: docs/rollouts.md#p-ro-sticky-replicas
// promise: docs/rollouts.md#p-ro-sticky-once
func TestLossesByKey(t *testing.T) {
	const margin = 0
	worse, good := priced(40, 20), priced(40, 5)
	var mirrored stats.PairedLosses
	for range 40 {
		mirrored.Add(0.4, 0.1)
	}
	for _, tc := range []struct {
		name   string
		shadow spec.Share
		want   float64
	}{
		{"split", 0, stats.LogLossEvidence(worse.Losses, good.Losses, 0.2/0.95, margin)},
		{"mirrored", 1, stats.LogPairedEvidence(mirrored, margin)},
	} {
		t.Run(tc.name, func(t *testing.T) {
			stage, keys := keyedStage(0.05, 0.25)
			stage.Spec.Shadow, stage.Of = tc.shadow, 3
			stage.Tests.Loss = &spec.LossTest{Bound: 50, Alpha: 0.03}
			keys.Losses = mirrored
			var now []stats.Snapshot
			for _, gateway := range []string{"a", "b", "c"} {
				one := keyedSnapshot(gateway, keys, worse, good)
				one.Revisions[0].Versions = map[string]stats.Counts{"1": priced(4000, 5), "2": priced(4000, 20)} // a few users' many requests
				now = append(now, one)
			}
			state, look, _ := EvaluateStage(stage, State{}, now, nil)
			if want := tc.want + math.Log(stats.Part(0)); math.Abs(state.Loss.Stage-want) > 1e-9 || want <= 0 {
				t.Errorf("ln E = %v, want the %v of one gateway", state.Loss.Stage, want)
			}
			if math.Abs(look.Loss.Alpha-0.01) > 1e-9 || look.Loss.Samples != 120 {
				t.Errorf("alpha %v, %d samples, want 0.01 for each of three stages, and 120", look.Loss.Alpha, look.Loss.Samples)
			}
		})
	}
}
