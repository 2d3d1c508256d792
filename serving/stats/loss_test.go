package stats

import (
	"math"
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"
)

// lossRollout simulates the stages of a rollout with ten looks each, and says after how many of the candidate's losses it was ended; 0 for never.
func lossRollout(rng *rand.Rand, candidate, stable func() float64, margin float64) int64 {
	var evidence LossEvidence
	var answers int64
	for _, share := range []float64{0.1, 0.25, 0.5} {
		var c, s Losses
		for range 10 {
			for range 500 {
				if rng.Float64() < share {
					c.Add(candidate())
				} else {
					s.Add(stable())
				}
			}
			evidence = evidence.Look(margin, LossSplit{Candidate: c, Stable: s, Share: share})
			if evidence.Rejects(0.01) {
				return answers + c.N
			}
		}
		answers += c.N
		evidence = evidence.Next()
	}
	return 0
}

// absolute is a loss of half-normal errors with this mean, as a share of the bound.
func absolute(rng *rand.Rand, mean float64) func() float64 {
	return func() float64 { return math.Abs(rng.NormFloat64()) * mean * math.Sqrt(math.Pi/2) }
}

// rare is a loss that is 1 with a probability, else 0: the widest for its mean.
func rare(rng *rand.Rand, p float64) func() float64 {
	return func() float64 {
		if rng.Float64() < p {
			return 1
		}
		return 0
	}
}

func TestLossTestFalseAlarms(t *testing.T) {
	rng := rand.New(rand.NewPCG(31, 1))
	hour := 0.0
	for _, tc := range []struct {
		name              string
		candidate, stable func() float64
		margin            float64
	}{
		{"equal", absolute(rng, 0.1), absolute(rng, 0.1), 0},
		{"equal, beyond the bound", absolute(rng, 0.8), absolute(rng, 0.8), 0},
		{"equal and rare", rare(rng, 0.02), rare(rng, 0.02), 0},
		{"another shape of the same mean", rare(rng, 0.1), absolute(rng, 0.1), 0},
		{"better", absolute(rng, 0.08), absolute(rng, 0.1), 0},
		{"at the margin", absolute(rng, 0.12), absolute(rng, 0.1), 0.02},
		{"that changes over the day", func() float64 { hour += 1e-4; return 0.2 + 0.1*math.Sin(hour) }, func() float64 { return 0.2 + 0.1*math.Sin(hour) }, 0},
	} {
		ended, rollouts := 0, 200
		for range rollouts {
			if lossRollout(rng, tc.candidate, tc.stable, tc.margin) > 0 {
				ended++
			}
		}
		if ended > rollouts/100 {
			t.Errorf("%s: %d of %d rollouts were ended, want at most 1%%", tc.name, ended, rollouts)
		}
	}
}

func TestLossTestPower(t *testing.T) {
	rng := rand.New(rand.NewPCG(32, 1))
	for _, tc := range []struct {
		name              string
		candidate, stable func() float64
		within            int64 // answers of the candidate, in nine of ten rollouts
	}{
		{"half again as large", absolute(rng, 0.15), absolute(rng, 0.1), 500},
		{"a fifth larger", absolute(rng, 0.12), absolute(rng, 0.1), 2500},
		{"twice as large, far below the bound", absolute(rng, 0.02), absolute(rng, 0.01), 1000},
		{"constant and a little larger", func() float64 { return 0.22 }, func() float64 { return 0.2 }, 1500},
	} {
		late, rollouts := 0, 100
		for range rollouts {
			if n := lossRollout(rng, tc.candidate, tc.stable, 0); n == 0 || n > tc.within {
				late++
			}
		}
		t.Logf("%s: %d of %d rollouts were not ended within %d answers", tc.name, late, rollouts, tc.within)
		if late > rollouts/10 {
			t.Errorf("%s: %d of %d rollouts were not ended within %d answers of the candidate", tc.name, late, rollouts, tc.within)
		}
	}
}

func TestPairedLosses(t *testing.T) {
	rng := rand.New(rand.NewPCG(33, 1))
	ended := map[float64]int{}
	for _, factor := range []float64{1, 1.2} {
		for range 300 {
			var p PairedLosses
			var evidence LossEvidence
			for range 20 {
				for range 50 {
					request := rng.Float64() * 0.2 // what both find hard
					p.Add(factor*request+0.02*rng.Float64(), request+0.02*rng.Float64())
				}
				if evidence = evidence.Look(0, LossSplit{Share: 0.5, Paired: p}); evidence.Rejects(0.01) {
					ended[factor]++
					break
				}
			}
		}
	}
	if ended[1] > 3 || ended[1.2] < 297 {
		t.Errorf("of 300 comparisons each, %d of equal releases and %d of a worse one were ended", ended[1], ended[1.2])
	}
}

// TestLossesOfPartsAreThoseOfTheWhole: gateways and epochs add up.
func TestLossesOfPartsAreThoseOfTheWhole(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var parts [2]Losses
		var pairs [2]PairedLosses
		var whole Losses
		var pair PairedLosses
		for _, i := range rapid.SliceOf(rapid.IntRange(0, 1)).Draw(t, "part") {
			x := float64(rapid.IntRange(-64, 128).Draw(t, "loss")) / 64 // exact in sums
			parts[i].Add(x)
			whole.Add(x)
			pairs[i].Add(x, 0.5)
			pair.Add(x, 0.5)
		}
		if got := parts[0].Plus(parts[1]); got != whole {
			t.Fatalf("%+v, want %+v", got, whole)
		}
		if got := pairs[0].Plus(pairs[1]); got != pair {
			t.Fatalf("%+v, want %+v", got, pair)
		}
	})
}

// TestNothingToCompare: no losses, or all traffic on one side, is no evidence.
func TestNothingToCompare(t *testing.T) {
	var l Losses
	l.Add(1)
	l.Add(math.NaN())
	if l.Sum != 2 {
		t.Errorf("a loss that is no number counts as %v, want the largest", l.Sum-1)
	}
	for _, got := range []float64{
		LogLossEvidence(Losses{}, Losses{}, 0.5, 0), LogLossEvidence(l, Losses{}, 1, 0), LogLossEvidence(l, l, 0, 0), LogPairedEvidence(PairedLosses{}, 0),
		LossEvidence{}.Look(0).Stage,
	} {
		if math.Abs(got) > 1e-12 {
			t.Errorf("evidence %v of nothing", got)
		}
	}
}
