package rollout

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/serving/stats"
)

func lossStage(weight float64) Stage {
	s := weightStage(weight)
	s.Tests.Loss = &spec.LossTest{Bound: 50}
	return s
}

// priced are answers that are off by so much each, as shares of a bound of 50.
func priced(requests int64, off float64) stats.Counts {
	c := stats.Counts{Requests: requests, Labelled: requests}
	for range requests {
		c.Losses.Add(off / 50)
	}
	return c
}

func TestLossDecisions(t *testing.T) {
	first := lossStage(1)
	first.Stable = ""
	strict := lossStage(1)
	strict.Stable, strict.Tests.Loss = "", &spec.LossTest{Bound: 50, MaxMean: 5}
	lenient := lossStage(0.5)
	lenient.Tests.Loss = &spec.LossTest{Bound: 50, Margin: 10}
	shadow := lossStage(0)
	shadow.Spec.Shadow = 1
	mirrored := func(n int64, candidate, stable float64) stats.Snapshot {
		s := stats.Shadow{Version: "2", Mirrored: 100, Samples: 100, Agree: 100}
		for range n {
			s.Losses.Add(candidate/50, stable/50)
		}
		return shadowed(s)
	}
	unlabelled := stats.Counts{Requests: 500}
	for _, tc := range []struct {
		name     string
		stage    Stage
		now      stats.Snapshot
		decision string
		reason   string
	}{
		{"as good", lossStage(0.5), snapshot("e", priced(200, 5), priced(200, 5)), Pass, ""},
		{"worse", lossStage(0.5), snapshot("e", priced(400, 9), priced(400, 5)), Abort, "a mean loss of 9 over 400 answers against 5 over 400"},
		{"better", lossStage(0.5), snapshot("e", priced(400, 5), priced(400, 9)), Pass, ""},
		{"worse within the margin", lenient, snapshot("e", priced(400, 14), priced(400, 5)), Pass, ""},
		{"worse beyond the margin", lenient, snapshot("e", priced(400, 20), priced(400, 5)), Abort, "margin 10"},
		{"without labels", lossStage(0.5), snapshot("e", unlabelled, unlabelled), Hold, "0 of 100 answers with a label"},
		{"few labels", lossStage(0.5), snapshot("e", unlabelled.Plus(priced(99, 5)), unlabelled), Hold, "99 of 100 answers with a label"},
		{"first release", first, snapshot("e", priced(100, 24), stats.Counts{}), Pass, ""},
		{"first release, all wrong", first, snapshot("e", priced(100, 26), stats.Counts{}), Abort, "the mean loss of 100 answers to labelled requests is 26; without a release to compare with, tests.loss.max_mean allows 25"},
		{"first release, held to more", strict, snapshot("e", priced(100, 6), stats.Counts{}), Abort, "allows 5"},
		{"mirrored", shadow, mirrored(100, 5, 5), Pass, ""},
		{"mirrored, worse", shadow, mirrored(150, 12, 5), Abort, "a mean loss of 12 over 150 answers against 5 over 150"},
		{"mirrored without labels", shadow, mirrored(0, 0, 0), Hold, "0 of 100 answers with a label"},
	} {
		state, look, _ := EvaluateStage(tc.stage, State{}, []stats.Snapshot{tc.now}, nil)
		if look.Decision != tc.decision || !strings.Contains(look.Reason, tc.reason) {
			t.Errorf("%s: %s: %s, want %s: %s", tc.name, look.Decision, look.Reason, tc.decision, tc.reason)
		}
		if look.Loss == nil {
			t.Errorf("%s: the look does not say what the loss test saw", tc.name)
		}
		raw, err := json.Marshal(state.NextStage())
		var again State
		if err != nil || json.Unmarshal(raw, &again) != nil || math.Abs(again.Loss.Finished-state.Loss.Stage) > 1e-9 {
			t.Errorf("%s: the next stage begins with %+v, %v; want the evidence of this one", tc.name, again.Loss, err)
		}
	}
}

// TestLossesOfGatewaysAddUp: whichever gateway answered, before or after a restart, the test sees one set of answers.
func TestLossesOfGatewaysAddUp(t *testing.T) {
	rng := rand.New(rand.NewPCG(41, 1))
	var all, parts [2]stats.Counts
	var split [2][2]stats.Counts
	for range 400 {
		for side, off := range []float64{8, 5} {
			gateway, one := rng.IntN(2), priced(1, off*rng.Float64())
			all[side], split[gateway][side] = all[side].Plus(one), split[gateway][side].Plus(one)
		}
	}
	stage := lossStage(0.5)
	whole, _, _ := EvaluateStage(stage, State{}, []stats.Snapshot{snapshot("e", all[0], all[1])}, nil)
	// One gateway ends before the other is seen.
	state, _, _ := EvaluateStage(stage, State{}, []stats.Snapshot{snapshot("a", split[0][0], split[0][1]), snapshot("b", parts[0], parts[1])}, nil)
	state, look, _ := EvaluateStage(stage, state, []stats.Snapshot{snapshot("b", split[1][0], split[1][1])}, nil)
	if got, want := state.Loss.Stage, whole.Loss.Stage; math.Abs(got-want) > 1e-9 {
		t.Errorf("evidence %v over two gateways, want %v as over one", got, want)
	}
	if look.Loss.Samples != 400 {
		t.Errorf("%d answers, want 400", look.Loss.Samples)
	}
}
