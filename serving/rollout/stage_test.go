package rollout

import (
	"encoding/json"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/serving/stats"
)

// weightStage is a canary stage of release 2 against release 1.
func weightStage(weight float64) Stage {
	return Stage{
		Spec:      spec.Stage{Weight: spec.Share(weight), MinSamples: 100, MaxWait: spec.Duration(time.Minute)},
		Of:        2,
		Candidate: "2",
		Stable:    "1",
		Revision:  7,
		Elapsed:   time.Second,
	}
}

func shadowStage() Stage {
	s := weightStage(0)
	s.Spec.Shadow = 1
	return s
}

func counts(requests, wrong int64, latency time.Duration) stats.Counts {
	c := stats.Counts{Requests: requests, Wrong: wrong, Labelled: requests}
	for range requests {
		c.Latency.Add(latency)
	}
	return c
}

func snapshot(epoch string, candidate, stable stats.Counts) stats.Snapshot {
	return stats.Snapshot{Epoch: epoch, Revision: 7, Revisions: []stats.Revision{
		{Revision: 6, Versions: map[string]stats.Counts{"1": {Requests: 1000, Wrong: 1000}, "2": {Requests: 1000}}},
		{Revision: 7, Versions: map[string]stats.Counts{"1": stable, "2": candidate}},
	}}
}

func shadowed(s stats.Shadow) stats.Snapshot {
	return stats.Snapshot{Epoch: "e", Revision: 7, Revisions: []stats.Revision{{Revision: 7, Shadow: &s}}}
}

func TestDecisions(t *testing.T) {
	ms := time.Millisecond
	late := func(s Stage) Stage { s.Elapsed = 2 * time.Minute; return s }
	checked := func(s Stage) Stage { s.Spec.Checks = []spec.Expr{"x"}; return s }
	sure := func(s Stage) Stage { s.Tests.Errors.Alpha = 1e-60; return s }
	latency := func(s Stage) Stage {
		s.Tests.Latency = spec.LatencyTest{Quantile: 0.9, Ratio: 1.2}
		return s
	}
	asked := func(s Stage) Stage { s.Spec.Queries = []spec.StageQuery{{Query: "x"}}; return s }
	baking := func(elapsed time.Duration) Stage {
		s := weightStage(0.1)
		s.Spec.Bake, s.Elapsed = spec.Duration(2*time.Second), elapsed
		return s
	}
	holding := late(weightStage(0.1))
	holding.Spec.OnNoData = Hold
	first := weightStage(1)
	first.Stable = ""
	alone := weightStage(1)
	alone.Of = 1
	lenient := func(s Stage) Stage { s.Tests.Errors.MaxRate = 0.7; return s }
	labelled := func(requests, labels, wrong int64) stats.Counts {
		return stats.Counts{Requests: requests, Labelled: labels, Wrong: wrong}
	}
	wrongly := func(c stats.Counts) stats.Counts { c.Wrong = c.Labelled; return c }
	mirrored := func(bothErr, stableOnly, stableWrong, n int64) stats.Snapshot {
		s := shadowed(stats.Shadow{Version: "2", Mirrored: n, Samples: n, BothErr: bothErr, StableOnly: stableOnly})
		s.Revisions[0].Versions = map[string]stats.Counts{"1": labelled(n, n, stableWrong)}
		return s
	}
	firstShadow := shadowStage()
	firstShadow.Stable = ""
	for _, tc := range []struct {
		name     string
		stage    Stage
		now      stats.Snapshot
		verdict  spec.Verdict
		decision string
		reason   string
	}{
		{"no data", weightStage(0.1), stats.Snapshot{Epoch: "e"}, "", Hold, "0 of 100"},
		{"too few", weightStage(0.1), snapshot("e", counts(99, 0, ms), counts(900, 0, ms)), "", Hold, "99 of 100"},
		{"enough", weightStage(0.1), snapshot("e", counts(100, 1, ms), counts(900, 9, ms)), "", Pass, "1%"},
		{"too late", late(weightStage(0.1)), snapshot("e", counts(99, 0, ms), counts(900, 0, ms)), "", Abort, "only 99 of 100"},
		{"late but holding", holding, snapshot("e", counts(99, 0, ms), counts(900, 0, ms)), "", Hold, "still waiting"},
		{"bad before enough", weightStage(0.1), snapshot("e", counts(50, 50, ms), counts(450, 5, ms)), "", Abort, "more errors"},
		{"not bad enough for so small an alpha", sure(weightStage(0.1)), snapshot("e", counts(50, 50, ms), counts(450, 45, ms)), "", Hold, "50 of 100"},
		{"slow", latency(weightStage(0.5)), snapshot("e", counts(500, 0, 3*ms), counts(500, 0, ms)), "", Abort, "slower"},
		{"slow, which is not tested", weightStage(0.5), snapshot("e", counts(500, 0, 3*ms), counts(500, 0, ms)), "", Pass, ""},
		{"as slow as allowed", latency(weightStage(0.5)), snapshot("e", counts(500, 0, 1150*time.Microsecond), counts(500, 0, ms)), "", Pass, ""},
		{
			"both all wrong", weightStage(0.1), snapshot("e", counts(100, 100, ms), counts(900, 900, ms)), "", Abort,
			"both are mostly wrong: 100% of 100 answers of the candidate and 100% of 900 of the release that serves differ from their labels",
		},
		{"both all wrong where there are labels", weightStage(0.1), snapshot("e", labelled(1000, 10, 10), labelled(9000, 90, 90)), "", Abort, "100% of 10 answers"},
		{"both wrong where there are too few labels to say", weightStage(0.1), snapshot("e", labelled(1000, 4, 4), labelled(9000, 36, 36)), "", Pass, ""},
		{"both as wrong as a coin", weightStage(0.1), snapshot("e", counts(100, 52, ms), counts(900, 468, ms)), "", Pass, ""},
		{"both wrong at a hard task", lenient(weightStage(0.1)), snapshot("e", counts(100, 72, ms), counts(900, 650, ms)), "", Pass, ""},
		{"a candidate that is right, for a release that is wrong", weightStage(0.1), snapshot("e", counts(100, 2, ms), counts(900, 900, ms)), "", Pass, ""},
		{
			"both all wrong, judged by their losses", lossStage(0.1), snapshot("e", wrongly(priced(100, 5)), wrongly(priced(900, 5))),
			"", Pass, "",
		},
		{"all traffic, and nothing known of the release before", weightStage(1), snapshot("e", counts(100, 50, ms), stats.Counts{}), "", Pass, "so only tests.errors.max_rate (50%)"},
		{"all traffic, mostly wrong, and nothing known of the release before", weightStage(1), snapshot("e", counts(100, 51, ms), stats.Counts{}), "", Abort, "51% of 100 answers"},
		{"enough, and not baked", baking(time.Second), snapshot("e", counts(100, 1, ms), counts(900, 9, ms)), "", Hold, "100 answers of the candidate; baking until 2s"},
		{"bad before it is baked", baking(time.Second), snapshot("e", counts(50, 50, ms), counts(450, 5, ms)), "", Abort, "more errors"},
		{"enough, and baked", baking(2 * time.Second), snapshot("e", counts(100, 1, ms), counts(900, 9, ms)), "", Pass, "1%"},
		{"a check that fails is not made before it is baked", checked(baking(time.Second)), snapshot("e", counts(100, 0, ms), counts(900, 0, ms)), spec.VerdictFail, Hold, "baking"},
		{"a query without an answer", asked(weightStage(0.1)), snapshot("e", counts(100, 0, ms), counts(900, 0, ms)), spec.VerdictHold, Hold, "no answer yet: "},
		{"a query without an answer at the end", late(asked(weightStage(0.1))), snapshot("e", counts(100, 0, ms), counts(900, 0, ms)), spec.VerdictHold, Abort, "no answer after 1m0s: "},
		{"a query without an answer at the end, holding", asked(holding), snapshot("e", counts(100, 0, ms), counts(900, 0, ms)), spec.VerdictHold, Hold, "no answer yet: "},
		{"a query whose condition does not hold", asked(weightStage(0.1)), snapshot("e", counts(100, 0, ms), counts(900, 0, ms)), spec.VerdictFail, Abort, "does not hold"},
		{"first release", first, snapshot("e", counts(100, 0, ms), stats.Counts{}), "", Pass, ""},
		{"first release as good as a coin", first, snapshot("e", counts(100, 50, ms), stats.Counts{}), "", Pass, ""},
		{"first release, mostly wrong", first, snapshot("e", counts(100, 51, ms), stats.Counts{}), "", Abort, "51% of 100 answers to labelled requests are wrong"},
		{"first release, wrong where there are labels", first, snapshot("e", stats.Counts{Requests: 1000, Labelled: 10, Wrong: 10}, stats.Counts{}), "", Abort, "100% of 10"},
		{"first release, failing", first, snapshot("e", stats.Counts{Requests: 100, Failures: 51}, stats.Counts{}), "", Abort, "51% of 100 requests failed"},
		{"first release of a hard task", lenient(first), snapshot("e", counts(100, 60, ms), stats.Counts{}), "", Pass, ""},
		{"all traffic at once, mostly wrong", alone, snapshot("e", counts(100, 51, ms), stats.Counts{}), "", Abort, "51%"},
		{"labels refused", weightStage(0.1), snapshot("e", stats.Counts{Refused: 7}, stats.Counts{}), "", Hold, "7 requests were rejected because their label is not a class"},
		{"first release without data", first, stats.Snapshot{Epoch: "e"}, "", Hold, "0 of 100"},
		{"check holds", checked(weightStage(0.1)), snapshot("e", counts(100, 0, ms), counts(900, 0, ms)), spec.VerdictPass, Pass, ""},
		{"check fails", checked(weightStage(0.1)), snapshot("e", counts(100, 0, ms), counts(900, 0, ms)), spec.VerdictFail, Abort, "does not hold"},
		{"check breaks", checked(weightStage(0.1)), snapshot("e", counts(100, 0, ms), counts(900, 0, ms)), spec.VerdictError, Abort, "broken"},
		{"check too early", checked(weightStage(0.1)), snapshot("e", counts(99, 0, ms), counts(900, 0, ms)), spec.VerdictFail, Hold, ""},
		{"shadow", shadowStage(), shadowed(stats.Shadow{Version: "2", Mirrored: 100, Samples: 100, Agree: 99}), "", Pass, "99% agree"},
		{"shadow, both all wrong", shadowStage(), mirrored(100, 0, 100, 100), "", Abort, "100% of 100 answers of the candidate and 100% of 100 of the release"},
		{"shadow of a candidate that is right", shadowStage(), mirrored(0, 100, 100, 100), "", Pass, ""},
		{
			"shadow without answers", shadowStage(), shadowed(stats.Shadow{Version: "2", Mirrored: 120, NoAnswer: 120}), "", Hold,
			"0 of 100 answers compared; the outputs of both releases for 120 requests contain no class or string",
		},
		{"shadow too few", shadowStage(), shadowed(stats.Shadow{Version: "2", Mirrored: 99, Samples: 99, Agree: 99}), "", Hold, "99 of 100"},
		{"shadow bad", shadowStage(), shadowed(stats.Shadow{Version: "2", Mirrored: 40, Samples: 40, CandidateOnly: 40}), "", Abort, "40 failed on the candidate only"},
		{"shadow of another", shadowStage(), shadowed(stats.Shadow{Version: "3", Mirrored: 100, Samples: 100}), "", Hold, "0 of 100"},
		{"first shadow", firstShadow, stats.Snapshot{Epoch: "e"}, "", Pass, "no release is serving"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			checks := func(spec.SideCounts, spec.SideCounts, spec.Delta) []spec.Check {
				return []spec.Check{{Expression: "x", Verdict: tc.verdict, Error: "broken"}}
			}
			_, look, made := EvaluateStage(tc.stage, State{}, []stats.Snapshot{tc.now}, checks)
			if look.Decision != tc.decision || !strings.Contains(look.Reason, tc.reason) {
				t.Errorf("%s: %s, want %s: %s", look.Decision, look.Reason, tc.decision, tc.reason)
			}
			if judged := tc.verdict != "" && (tc.decision != Hold || tc.verdict == spec.VerdictHold); judged != (len(made) == 1) {
				t.Errorf("checks made: %v", made)
			}
			want := tc.stage.Tests.Errors.Alpha
			if want == 0 {
				want = defaultAlpha
			}
			if look.Alpha != want {
				t.Errorf("alpha %v, want %v", look.Alpha, want)
			}
			if _, err := json.Marshal(look); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestEqualCandidatesPass: a candidate that is as good as what serves passes two stages of 15 looks each, and one that is worse is
// found, with requests drawn one by one.
func TestEqualCandidatesPass(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	rollouts := 200
	aborted := map[float64]int{}
	for _, rate := range []float64{0.02, 0.08} {
		for range rollouts {
			if simulate(rng, rate, 0.02) == Abort {
				aborted[rate]++
			}
		}
	}
	if aborted[0.02] > 4 { // alpha is 1%
		t.Errorf("%d of %d equal candidates were rolled back", aborted[0.02], rollouts)
	}
	if aborted[0.08] < 190 {
		t.Errorf("only %d of %d bad candidates were rolled back", aborted[0.08], rollouts)
	}
}

func simulate(rng *rand.Rand, candidateRate, stableRate float64) string {
	var state State
	for _, share := range []float64{0.1, 0.5} {
		stage := weightStage(share)
		stage.Spec.MinSamples = 1500
		candidate, stable := stats.Counts{}, stats.Counts{}
		for {
			for range 1000 {
				side, rate := &stable, stableRate
				if rng.Float64() < share {
					side, rate = &candidate, candidateRate
				}
				side.Requests++
				if rng.Float64() < rate {
					side.Wrong++
				}
			}
			var look spec.Look
			state, look, _ = EvaluateStage(stage, state, []stats.Snapshot{snapshot("e", candidate, stable)}, nil)
			if look.Decision == Abort {
				return Abort
			}
			if look.Decision == Pass {
				break
			}
		}
		state = state.NextStage()
	}
	return Pass
}

// TestClientErrors: what releases refuse as their clients' mistake is no error of theirs, and no sample. A candidate that refuses what the
// other release accepts is found by that, and one that refuses everything has no samples.
func TestClientErrors(t *testing.T) {
	mistakes := func(answers, refused int64) stats.Counts {
		c := counts(answers, 0, time.Millisecond)
		c.ClientErrors = refused
		return c
	}
	late := func(s Stage) Stage { s.Elapsed = 2 * time.Minute; return s }
	full := weightStage(1)
	for name, c := range map[string]struct {
		stage             Stage
		before            Past
		candidate, stable stats.Counts
		decision, reason  string
	}{
		"alike":            {stage: weightStage(0.5), candidate: mistakes(150, 900), stable: mistakes(150, 900), decision: Pass, reason: "900 requests of the candidate were refused with a client error, which does not count, and 900 of the release that serves"},
		"by chance":        {stage: weightStage(0.5), candidate: mistakes(150, 13), stable: mistakes(150, 6), decision: Pass},
		"the candidate":    {stage: weightStage(0.5), candidate: mistakes(150, 40), stable: mistakes(150, 2), decision: Abort, reason: "more requests are refused with a client error than by the release that serves: 40 beside 150 answers, and 2 beside 150"},
		"the other":        {stage: weightStage(0.5), candidate: mistakes(150, 2), stable: mistakes(150, 40), decision: Pass},
		"no samples":       {stage: weightStage(0.5), candidate: mistakes(99, 10), stable: mistakes(150, 10), decision: Hold, reason: "99 of 100"},
		"in the last one":  {stage: full, before: Past{Requests: 150}, candidate: mistakes(150, 900), decision: Pass},
		"everything there": {stage: late(full), before: Past{Requests: 150}, candidate: mistakes(0, 900), decision: Abort, reason: "only 0 of 100 answers of the candidate after 1m0s; 900 requests of the candidate were refused"},
	} {
		_, look, _ := EvaluateStage(c.stage, State{Before: c.before}, []stats.Snapshot{snapshot("e", c.candidate, c.stable)}, nil)
		if look.Decision != c.decision || !strings.Contains(look.Reason, c.reason) {
			t.Errorf("%s: %s, %s; want %s, %q", name, look.Decision, look.Reason, c.decision, c.reason)
		}
	}
	keyed := weightStage(0.5)
	keyed.Keyed = true
	for name, c := range map[string]struct {
		keys     int
		decision string
	}{"one key": {1, Pass}, "many keys": {40, Abort}} {
		s := snapshot("e", mistakes(150, 40), mistakes(150, 0))
		k := &stats.Keyed{To: stats.Cells / 2, First: map[string]stats.Counts{"1": counts(150, 0, 0), "2": counts(150, 0, 0)}, WithKey: 300}
		for i := range c.keys {
			k.Refused.Add(i)
		}
		s.Revisions[1].Keyed = k
		if _, look, _ := EvaluateStage(keyed, State{}, []stats.Snapshot{s}, nil); look.Decision != c.decision {
			t.Errorf("%s: %s, %s; want %s", name, look.Decision, look.Reason, c.decision)
		}
	}
}

// TestStageThatCouldNotFail: however few samples a stage asks for, it passes no candidate that fails each request, and none before its tests
// could have found one that does.
func TestStageThatCouldNotFail(t *testing.T) {
	failing := func(n, failures int64) stats.Counts { return stats.Counts{Requests: n, Failures: failures} }
	for _, weight := range []float64{0.01, 0.1, 0.5, 0.9, 0.99, 1} {
		for _, before := range []Past{{}, {Requests: 100}, {Requests: 100, Failures: 5}, {Requests: 100, Failures: 70}} {
			stage := weightStage(weight)
			stage.Spec.MinSamples = 1
			for n := int64(1); ; n++ {
				if n > 2000 {
					t.Errorf("weight %v after %+v: a candidate without failures does not pass", weight, before)
					break
				}
				other := failing(1000, 0)
				if weight == 1 {
					other = stats.Counts{}
				}
				_, all, _ := EvaluateStage(stage, State{Before: before}, []stats.Snapshot{snapshot("e", failing(n, n), other)}, nil)
				if all.Decision == Pass {
					t.Fatalf("weight %v after %+v: %d of %d failed: %s", weight, before, n, n, all.Reason)
				}
				_, none, _ := EvaluateStage(stage, State{Before: before}, []stats.Snapshot{snapshot("e", failing(n, 0), other)}, nil)
				if none.Decision == Pass {
					if all.Decision != Abort {
						t.Errorf("weight %v after %+v: %d samples pass, and with %d failures: %s, %s", weight, before, n, n, all.Decision, all.Reason)
					}
					break
				}
			}
		}
	}
	shadow := shadowStage()
	shadow.Spec.MinSamples = 5
	const why = "; `min_samples` is 5, but with fewer than 19 the error test would pass a candidate that fails every request"
	for n, want := range map[int64]string{5: Hold, 18: Hold, 19: Pass} {
		_, look, _ := EvaluateStage(shadow, State{}, []stats.Snapshot{shadowed(stats.Shadow{Version: "2", Mirrored: n, Samples: n})}, nil)
		if look.Decision != want || strings.HasSuffix(look.Reason, why) != (want == Hold) {
			t.Errorf("%d copies: %s, %s; want %s", n, look.Decision, look.Reason, want)
		}
	}
}

// TestLeastErrors: the number that lint knows is that of the test.
func TestLeastErrors(t *testing.T) {
	for _, share := range []float64{0.001, 0.1, 0.5, 0.9, 0.99} {
		for _, alpha := range []float64{0.5, 0.01, 1e-6} {
			rejects := func(n int64) bool {
				return stats.ErrorEvidence{Finished: -1}.Look(stats.Split{Candidate: n, Share: share}).Rejects(alpha)
			}
			if n := spec.LeastErrors(share, alpha, -1); !rejects(n) || rejects(n-1) {
				t.Errorf("share %v, alpha %v: %d errors, but the test finds the candidate worse: %v, with one less: %v", share, alpha, n, rejects(n), rejects(n-1))
			}
		}
	}
}
