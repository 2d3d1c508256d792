package rollout

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/serving/stats"
)

func TestFullDecisions(t *testing.T) {
	failing := func(requests, failures int64) stats.Counts {
		return stats.Counts{Requests: requests, Failures: failures}
	}
	wrong := func(labelled, wrong int64) stats.Counts {
		return stats.Counts{Requests: labelled, Labelled: labelled, Wrong: wrong}
	}
	allowing := func(rate float64) spec.Tests { return spec.Tests{Errors: spec.ErrorTest{MaxRate: rate}} }
	loss := func(most float64) spec.Tests { return spec.Tests{Loss: &spec.LossTest{Bound: 50, MaxMean: most}} }
	for _, tc := range []struct {
		name        string
		tests       spec.Tests
		before, now stats.Counts
		decision    string
		reason      string
	}{
		{"as good", spec.Tests{}, failing(900, 9), failing(100, 1), Pass, "the release before had 1% of 900 in earlier stages"},
		{"worse at another hour", spec.Tests{}, failing(9000, 90), failing(10000, 150), Pass, ""},
		{"failing", spec.Tests{}, failing(900, 9), failing(100, 50), Abort, "50% of 100 requests failed, and 1% of 900 with the release before"},
		{"failing before its samples are there", spec.Tests{}, failing(900, 0), failing(30, 15), Abort, "50% of 30 requests failed"},
		{"failing a little", spec.Tests{}, failing(90000, 90), failing(10000, 100), Abort, "1% of 10000 requests failed"},
		{"an error by chance", spec.Tests{}, failing(900, 0), failing(100, 1), Pass, ""},
		{"failing, and the release before, too", spec.Tests{}, failing(900, 400), failing(100, 49), Pass, ""},
		{"above a limit that the release before kept", allowing(0.1), failing(9000, 630), failing(10000, 1200), Abort, "max_rate allows 10%"},
		{"above a limit by chance", allowing(0.1), failing(9000, 800), failing(100, 11), Pass, ""},
		{"above a limit that the release before did not keep", allowing(0.1), failing(9000, 1100), failing(10000, 1200), Pass, ""},
		{"wrong", spec.Tests{}, wrong(900, 27), wrong(100, 30), Abort, "30% of 100 answers to labelled requests are wrong, and 3% of 900 of the release before"},
		{"labels that came later", spec.Tests{}, failing(900, 0), wrong(100, 30), Pass, ""},
		{"labels that came later, mostly wrong", spec.Tests{}, failing(900, 0), wrong(100, 51), Abort, "max_rate allows 50%"},
		{"nothing known", spec.Tests{}, stats.Counts{}, failing(100, 51), Abort, "51% of 100 requests failed"},
		{"too far from the labels", loss(10), priced(900, 5), priced(1000, 15), Abort, "tests.loss.max_mean allows 10"},
		{"as far from the labels as the release before", loss(10), priced(900, 15), priced(1000, 15), Pass, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got, reason := fully(t, tc.tests, tc.before, tc.now); got != tc.decision || !strings.Contains(reason, tc.reason) {
				t.Errorf("%s: %s, want %s: %s", got, reason, tc.decision, tc.reason)
			}
		})
	}
}

// fully looks at a stage in which the candidate has all the traffic, after one in which the release before answered so.
func fully(t *testing.T, tests spec.Tests, before, now stats.Counts) (decision, reason string) {
	half := weightStage(0.5)
	state, _, _ := EvaluateStage(half, State{}, []stats.Snapshot{snapshot("e", stats.Counts{}, before)}, nil)
	full := weightStage(1)
	full.Tests = tests
	_, look, _ := EvaluateStage(full, throughJSON(t, state.NextStage()), []stats.Snapshot{snapshot("e", now, stats.Counts{})}, nil)
	return look.Decision, look.Reason
}

// TestFullByKey: a key that each of several gateways has answered is no evidence for each of them.
func TestFullByKey(t *testing.T) {
	snapshots := func(held, weight float64, gateways int, candidate, stable stats.Counts) (Stage, []stats.Snapshot) {
		stage, keyed := keyedStage(held, weight)
		stage.Spec.MinSamples = 10
		var all []stats.Snapshot
		for i := range gateways {
			all = append(all, keyedSnapshot(string(rune('a'+i)), keyed, candidate, stable))
		}
		return stage, all
	}
	for gateways, want := range map[int]string{1: Abort, 4: Pass} {
		// The same number of outcomes, of as many keys or of a fourth of them.
		before, now := stats.Counts{Requests: 400}, stats.Counts{Requests: 400, Failures: 16}
		if gateways > 1 {
			before, now = stats.Counts{Requests: 100}, stats.Counts{Requests: 100, Failures: 4}
		}
		half, seen := snapshots(0, 0.5, gateways, stats.Counts{}, before)
		state, _, _ := EvaluateStage(half, State{}, seen, nil)
		full, seen := snapshots(0.5, 1, gateways, now, stats.Counts{})
		if _, look, _ := EvaluateStage(full, state.NextStage(), seen, nil); look.Decision != want {
			t.Errorf("%d gateways: %s: %s, want %s", gateways, look.Decision, look.Reason, want)
		}
	}
}

// TestFullByChance: a candidate that is as good as the release before is not rolled back for being looked at again and again with all the
// traffic, however little is known of that release.
func TestFullByChance(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	drawn := func(n int64, rate float64) (failures int64) {
		for range n {
			if rng.Float64() < rate {
				failures++
			}
		}
		return failures
	}
	for _, known := range []int64{20, 200, 2000} {
		for _, rate := range []float64{0.002, 0.02, 0.2} {
			const rollouts = 500
			var aborted int
			for range rollouts {
				before := drawn(known, rate)
				var n, failures int64
				for n < 4000 {
					n, failures = n+100, failures+drawn(100, rate)
					if risen(failures, n, before, known, 1, defaultAlpha) {
						aborted++
						break
					}
				}
			}
			if aborted > rollouts/100 {
				t.Errorf("%d of %d candidates with %g errors, with %d requests known, were rolled back", aborted, rollouts, rate, known)
			}
		}
	}
}
