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
		{"too few keys", stage, []stats.Snapshot{keyedSnapshot("a", none, counts(99, 0, ms), counts(300, 0, ms))}, Hold, "84 of 100 keys"},
		{"enough keys", stage, []stats.Snapshot{keyedSnapshot("a", none, counts(60, 0, ms), counts(300, 0, ms)), keyedSnapshot("b", none, counts(60, 0, ms), counts(300, 0, ms))}, Pass, ""},
		{"as many errors as its share", stage, []stats.Snapshot{keyedSnapshot("a", stable(candidate(none, 21), 79), counts(99, 21, ms), counts(300, 79, ms))}, Hold, ""},
		{"more errors", stage, []stats.Snapshot{keyedSnapshot("a", candidate(none, 30), counts(99, 30, ms), counts(300, 40, ms)), keyedSnapshot("b", stable(candidate(none, 5), 40), counts(99, 5, ms), counts(300, 0, ms))}, Abort, "of 70 keys with errors 30 got them from the candidate, which would have about 21.05%"},
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
			if said := fmt.Sprintf("%d of 100 %s", look.Samples, look.Counted); look.Decision == Hold && !strings.HasPrefix(look.Reason, said) {
				t.Errorf("the look counts %q, and its reason is %q", said, look.Reason)
			}
		})
	}
}

// TestRequestsWithoutKeys: a key that no request has is a mistake in `sticky`, and a look says so, over all gateways.
func TestRequestsWithoutKeys(t *testing.T) {
	stage, keyed := keyedStage(0.05, 0.25)
	reason := func(with, without int64) string {
		one, other := keyed, keyed
		one.WithoutKey, other.WithKey, other.WithoutKey = 9, with, without
		answers := counts(20, 0, time.Millisecond)
		_, look, _ := EvaluateStage(stage, State{}, []stats.Snapshot{keyedSnapshot("a", one, answers, answers), keyedSnapshot("b", other, answers, answers)}, nil)
		return look.Reason
	}
	if want, got := "none of the 12 requests had the key that `sticky` names", reason(0, 3); !strings.Contains(got, want) {
		t.Errorf("the look says %q, want %q in it", got, want)
	}
	if got := reason(1, 3); strings.Contains(got, "none of the") {
		t.Errorf("one request had a key, and the look says %q", got)
	}
}

// TestKeyedStages: evidence of a stage is carried to the next, where only other keys count.
func TestKeyedStages(t *testing.T) {
	stage, k := keyedStage(0, 0.05)
	for i := range 5 {
		k.Erred.Add(i)
	}
	state, look, _ := EvaluateStage(stage, State{}, []stats.Snapshot{keyedSnapshot("a", k, stats.Counts{}, stats.Counts{})}, nil)
	first := look.EValue
	if first <= 1 {
		t.Fatalf("e-value %v", first)
	}
	if state = state.NextStage(); len(state.Cells) > 0 {
		t.Errorf("the next stage knows of %d revisions", len(state.Cells))
	}
	stage, next := keyedStage(0.05, 0.25)
	next.Erred = k.Erred // the same keys fail again
	if _, look, _ = EvaluateStage(stage, state, []stats.Snapshot{keyedSnapshot("a", next, stats.Counts{}, stats.Counts{})}, nil); look.EValue != first {
		t.Errorf("the e-value was %v, and is %v when the same keys fail again", first, look.EValue)
	}
}

// TestKeysOfTheShare: how many keys a stage has does not depend on which of them chance gave to the candidate.
func TestKeysOfTheShare(t *testing.T) {
	for _, tc := range []struct{ candidate, stable, want int64 }{
		{25, 75, 25}, {30, 70, 25}, {20, 80, 25}, {12, 88, 24}, {0, 100, 0},
	} {
		stage, k := keyedStage(0, 0.25)
		state, _, _ := EvaluateStage(stage, State{}, []stats.Snapshot{keyedSnapshot("a", k, counts(tc.candidate, 0, 0), counts(tc.stable, 0, 0))}, nil)
		if got := state.keys(); got != tc.want {
			t.Errorf("%d and %d keys count as %d of the candidate, want %d", tc.candidate, tc.stable, got, tc.want)
		}
	}
}

// TestLossesByKey: losses are compared by key, whatever all requests were off by, and those of two gateways, which may be of the same keys, are
// not added up. Mirrored keys count in the same way.
func TestLossesByKey(t *testing.T) {
	const margin = 0
	worse, good := priced(40, 20), priced(40, 5)
	var mirrored stats.PairedLosses
	for range 40 {
		mirrored.Add(0.4, 0.1)
	}
	for _, tc := range []struct {
		name    string
		shadow  spec.Share
		want    float64
		samples int64
	}{
		{"split", 0, stats.LogLossEvidence(worse.Losses, good.Losses, 0.2/0.95, margin), 50}, // of 240 keys, the candidate's share
		{"mirrored", 1, stats.LogPairedEvidence(mirrored, margin), 120},
	} {
		t.Run(tc.name, func(t *testing.T) {
			stage, keys := keyedStage(0.05, 0.25)
			stage.Spec.Shadow = tc.shadow
			stage.Tests.Loss = &spec.LossTest{Bound: 50}
			keys.Losses = mirrored
			var now []stats.Snapshot
			for _, gateway := range []string{"a", "b", "c"} {
				one := keyedSnapshot(gateway, keys, worse, good)
				one.Revisions[0].Versions = map[string]stats.Counts{"1": priced(4000, 5), "2": priced(4000, 20)} // a few users' many requests
				now = append(now, one)
			}
			before := State{Loss: stats.LossEvidence{Finished: 1}}
			state, look, _ := EvaluateStage(stage, before, now, nil)
			if want := tc.want + math.Log(stats.Part(0)); math.Abs(state.Loss.Stage-want) > 1e-9 || state.Loss.Finished != 1 {
				t.Errorf("evidence %+v, want ln E = %v of one gateway, and that of earlier stages", state.Loss, want)
			}
			if look.Loss.Samples != tc.samples {
				t.Errorf("%d samples, want %d", look.Loss.Samples, tc.samples)
			}
		})
	}
}

// Each gateway and revision keeps its part of alpha when a gateway that was seen before it counts another revision: the parts that have ever
// been used must not add up to more than all of it.
func TestPartsOfLossesStay(t *testing.T) {
	var worse, good stats.PairedLosses
	for range 40 {
		worse.Add(0.4, 0.1)
		good.Add(0.1, 0.1)
	}
	stage, _ := keyedStage(0.05, 0.25)
	stage.Spec.Shadow = 1
	evidence := func(first, second int) float64 {
		life := func(order, revisions int, losses stats.PairedLosses) Life {
			l := Life{Order: order}
			for r := range revisions {
				l.Tallies = append(l.Tallies, Tally{Revision: int64(r), Keys: &KeyTally{Losses: losses}})
			}
			return l
		}
		s := State{Epochs: map[string]Life{"a": life(0, first, good), "b": life(1, second, worse)}}
		most, _ := s.keyedLoss(stage, 0)
		return most.Stage
	}
	if before, after := evidence(1, 1), evidence(3, 1); before != after {
		t.Errorf("ln E of the second gateway was %v, and is %v with two more revisions of the first", before, after)
	}
	seen := map[int]bool{}
	for a := range 50 {
		for b := range 50 {
			if n := pairing(a, b); n < 0 || seen[n] {
				t.Fatalf("the pair %d, %d has the number %d, like another one", a, b, n)
			} else {
				seen[n] = true
			}
		}
	}
}
