package stats

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func TestHistogramQuantiles(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		latencies := rapid.SliceOfN(rapid.Int64Range(int64(10*time.Microsecond), int64(10*time.Minute)), 1, 200).Draw(t, "latencies")
		q := rapid.SampledFrom([]float64{0.01, 0.5, 0.9, 0.99, 1}).Draw(t, "q")
		var h Histogram
		for _, l := range latencies {
			h.Add(time.Duration(l))
		}
		slices.Sort(latencies)
		exact := float64(latencies[int(math.Ceil(q*float64(len(latencies))))-1])
		if got := float64(h.Quantile(q)); math.Abs(got-exact) > 0.0101*exact {
			t.Fatalf("quantile %v is %v, exactly %v", q, time.Duration(got), time.Duration(exact))
		}
		lower, upper := QuantileBand(h, q, 0.01)
		if float64(lower) > exact || float64(upper) < exact {
			t.Fatalf("band [%v, %v] misses the sample's quantile %v", lower, upper, time.Duration(exact))
		}
	})
}

func TestHistogramExtremes(t *testing.T) {
	var h Histogram
	if got := h.Quantile(0.5); got != 0 {
		t.Errorf("quantile of nothing is %v", got)
	}
	for _, d := range []time.Duration{-time.Second, 0, time.Nanosecond, time.Microsecond, math.MaxInt64} {
		h.Add(d)
	}
	if h.Count() != 5 || h.Buckets[0] != 4 {
		t.Errorf("buckets %v", h.Buckets)
	}
	if got := h.Quantile(1); got < 59*time.Minute || got > 61*time.Minute {
		t.Errorf("the highest latency is %v, want one hour", got)
	}
	if diff := cmp.Diff([]int64{4, 4}, h.Cumulative([]time.Duration{time.Millisecond, time.Second})); diff != "" {
		t.Errorf("cumulative (-want +got):\n%s", diff)
	}
}

func TestPlusIsWhatOneCounterWouldHold(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var parts [2]Counts
		var whole Counts
		for _, i := range rapid.SliceOf(rapid.IntRange(0, 1)).Draw(t, "part") {
			d := time.Duration(rapid.Int64Range(0, int64(time.Second)).Draw(t, "latency"))
			for _, c := range []*Counts{&parts[i], &whole} {
				c.Requests++
				c.Wrong += int64(d % 2)
				c.Latency.Add(d)
			}
		}
		if diff := cmp.Diff(Counts{}.Plus(whole), parts[0].Plus(parts[1])); diff != "" {
			t.Fatalf("(-whole +sum):\n%s", diff)
		}
	})
}

func TestSnapshotSurvivesJSON(t *testing.T) {
	var latency Histogram
	latency.Add(3 * time.Millisecond)
	want := Snapshot{Target: "t", Epoch: "e", Revision: 3, Revisions: []Revision{{
		Revision: 3,
		Versions: map[string]Counts{"1": {Requests: 1, Wrong: 1, Latency: latency}},
		Shadow:   &Shadow{Version: "2", Samples: 1, MaxAbs: 0.5, Latency: latency},
	}}}
	raw, err := json.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	var got Snapshot
	if err := json.Unmarshal(raw, &got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestLogEvidence(t *testing.T) {
	// E for one error of the candidate at θ = 0.5: B(11, 10) / (B(10, 10) / 2) = 1.
	if got := LogEvidence(1, 0, 0.5); math.Abs(got) > 1e-12 {
		t.Errorf("one error: %v, want 0", got)
	}
	// Two errors of the candidate: (10·11)/(20·21) / (1/4) = 22/21.
	if got, want := LogEvidence(2, 0, 0.5), math.Log(22.0/21); math.Abs(got-want) > 1e-12 {
		t.Errorf("two errors: %v, want %v", got, want)
	}
	for _, share := range []float64{0, 1} {
		if got := LogEvidence(100, 0, share); got != 0 {
			t.Errorf("share %v: %v, want 0", share, got)
		}
	}
}

// falls simulates rollouts of three stages with ten looks each and returns the share that the error test ended.
func falls(seed uint64, rollouts int, candidateRate, stableRate, alpha float64) float64 {
	rng := rand.New(rand.NewPCG(seed, 1))
	rejected := 0
	for range rollouts {
		if rolloutFalls(rng, candidateRate, stableRate, alpha) {
			rejected++
		}
	}
	return float64(rejected) / float64(rollouts)
}

func rolloutFalls(rng *rand.Rand, candidateRate, stableRate, alpha float64) bool {
	var evidence ErrorEvidence
	for _, share := range []float64{0.1, 0.25, 0.5} {
		var candidate, stable int64
		for range 10 {
			for range 1000 {
				switch isCandidate := rng.Float64() < share; {
				case isCandidate && rng.Float64() < candidateRate:
					candidate++
				case !isCandidate && rng.Float64() < stableRate:
					stable++
				}
			}
			evidence = evidence.Look(Split{candidate, stable, share})
			if evidence.Rejects(alpha) {
				return true
			}
		}
		evidence = evidence.Next()
	}
	return false
}

func TestErrorTestFalseAlarms(t *testing.T) {
	const alpha = 0.05
	for _, tc := range []struct {
		name              string
		candidate, stable float64
	}{{"equal", 0.02, 0.02}, {"better", 0.01, 0.02}} {
		if got := falls(11, 600, tc.candidate, tc.stable, alpha); got > alpha {
			t.Errorf("%s: %.1f%% of the rollouts were ended, want at most %.0f%%", tc.name, 100*got, 100*alpha)
		}
	}
}

func TestErrorTestPower(t *testing.T) {
	if got := falls(12, 100, 0.03, 0.01, 0.01); got < 0.99 {
		t.Errorf("3%% against 1%% errors was caught in %.0f%% of the rollouts, want all", 100*got)
	}
}

func TestBetterStagesDoNotCount(t *testing.T) {
	better := ErrorEvidence{}.Look(Split{0, 500, 0.5})
	if better.Stage < 10 {
		t.Fatalf("evidence %v, want much", better.Stage)
	}
	if better.Rejects(0.01) {
		t.Error("a better candidate was rejected")
	}
	if after := better.Next().Look(Split{6, 4, 0.5}); after.Rejects(0.01) {
		t.Error("evidence for the candidate was turned against it")
	}
}

// slowFalls is the share of simulated comparisons of 20 looks that the latency test ended, when the candidate is slower by a factor.
func slowFalls(seed uint64, comparisons int, factor float64, test LatencyTest) float64 {
	rng := rand.New(rand.NewPCG(seed, 2))
	rejected := 0
	for range comparisons {
		var candidate, stable Histogram
		for range 20 {
			for range 100 {
				candidate.Add(time.Duration(factor * (1 + rng.ExpFloat64()) * float64(time.Millisecond)))
				stable.Add(time.Duration((1 + rng.ExpFloat64()) * float64(time.Millisecond)))
			}
			if test.Look(candidate, stable).Rejected {
				rejected++
				break
			}
		}
	}
	return float64(rejected) / float64(comparisons)
}

func TestLatencyTest(t *testing.T) {
	test := LatencyTest{Quantile: 0.9, Ratio: 1, Alpha: 0.05}
	if got := slowFalls(21, 300, 1, test); got > test.Alpha {
		t.Errorf("equal latencies were ended in %.1f%%, want at most 5%%", 100*got)
	}
	if got := slowFalls(22, 100, 2, test); got < 0.99 {
		t.Errorf("twice the latency was caught in %.0f%%, want all", 100*got)
	}
	test.Ratio = 2
	if got := slowFalls(23, 300, 2, test); got > test.Alpha {
		t.Errorf("latencies at the allowed ratio were ended in %.1f%%, want at most 5%%", 100*got)
	}
}

func TestFewLatenciesProveNothing(t *testing.T) {
	var slow, fast Histogram
	for range 50 {
		slow.Add(time.Second)
		fast.Add(time.Millisecond)
	}
	look := LatencyTest{Quantile: 0.99, Ratio: 1.2, Alpha: 0.01}.Look(slow, fast)
	if look.Rejected || look.StableUpper != Unbounded {
		t.Errorf("50 latencies bound the 99th percentile: %+v", look)
	}
}
