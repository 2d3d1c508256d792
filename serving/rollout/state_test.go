package rollout

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/serving/stats"
)

// replica is a gateway of the model below: what it has counted, by revision, and what it has reported of that.
type replica struct {
	epoch    string
	beat     int64
	counted  map[int64]Counts
	reported stats.Snapshot
}

func (r *replica) report(weights map[int64]float64) {
	r.beat++
	r.reported = stats.Snapshot{Epoch: r.epoch, Beat: r.beat, Revision: 7, Active: []string{"1", "2"}}
	for _, revision := range slices.Sorted(maps.Keys(r.counted)) {
		r.reported.Revisions = append(r.reported.Revisions, stats.Revision{
			Revision: revision, Weights: map[string]float64{"1": 1 - weights[revision], "2": weights[revision]},
			Versions: map[string]stats.Counts{"1": r.counted[revision].Stable, "2": r.counted[revision].Candidate},
		})
	}
}

// TestCountsOfReplicas: whatever requests come to which replica under which revision, and whenever replicas report, die and start anew,
// each look sees what was reported by then, each request once and with the share behind it, and what a dead one had not reported never.
func TestCountsOfReplicas(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		weights := map[int64]float64{6: 0.9, 7: 0.1, 8: 0.5, 9: 0.25} // 6 is before the stage
		stage := weightStage(0.1)
		stage.Spec.MinSamples = 1 << 40
		var state State
		var look spec.Look
		var lives []*replica // those that died, too: their last reports stay
		replicas := make([]*replica, 3)
		start := func(i int) {
			replicas[i] = &replica{epoch: fmt.Sprint(len(lives)), counted: map[int64]Counts{}}
			lives = append(lives, replicas[i])
		}
		for i := range replicas {
			start(i)
		}
		see := func() {
			var now []stats.Snapshot
			for _, r := range lives {
				if r.beat > 0 {
					now = append(now, r.reported)
				}
			}
			state, look, _ = EvaluateStage(stage, state, now, nil)
			state = throughJSON(t, state)
		}
		for range rapid.IntRange(1, 30).Draw(t, "events") {
			i := rapid.IntRange(0, 2).Draw(t, "replica")
			r := replicas[i]
			switch rapid.SampledFrom([]string{"serve", "serve", "report", "die", "look"}).Draw(t, "event") {
			case "serve":
				revision := rapid.SampledFrom([]int64{6, 7, 8, 9}).Draw(t, "revision")
				n := rapid.Int64Range(0, 5).Draw(t, "requests")
				r.counted[revision] = r.counted[revision].plus(Counts{
					Candidate: counts(n, rapid.Int64Range(0, n).Draw(t, "wrong"), time.Millisecond), Stable: counts(n, n, time.Millisecond),
				})
			case "report":
				r.report(weights)
			case "die":
				start(i)
			case "look":
				see()
			}
		}
		see()
		var want Counts
		byRevision := map[int64]Counts{}
		for _, r := range lives {
			for _, reported := range r.reported.Revisions {
				if reported.Revision >= stage.Revision {
					c := Counts{Candidate: reported.Versions["2"], Stable: reported.Versions["1"]}
					want, byRevision[reported.Revision] = want.plus(c), byRevision[reported.Revision].plus(c)
				}
			}
		}
		if diff := cmp.Diff([]spec.SideCounts{side(want.Candidate), side(want.Stable)}, []spec.SideCounts{look.Candidate, look.Stable}); diff != "" {
			t.Fatalf("(-want +got):\n%s", diff)
		}
		evidence := 0.0
		newest := slices.Max(append(slices.Collect(maps.Keys(byRevision)), 0))
		for revision, c := range byRevision {
			s, f := c.Candidate.Errors(), c.Stable.Errors()
			e := stats.LogEvidence(s, f, weights[revision])
			if revision != newest && float64(s) <= weights[revision]*float64(s+f) {
				e = min(e, 0)
			}
			evidence += e
		}
		if got := state.Errors.Stage; math.Abs(got-evidence) > 1e-9*max(1, math.Abs(evidence)) {
			t.Fatalf("ln E = %v, want %v, the sum over revisions", got, evidence)
		}
	})
}

func throughJSON(t interface{ Fatal(args ...any) }, state State) State {
	raw, err := json.Marshal(state)
	if err != nil {
		t.Fatal(err)
	}
	var again State
	if err := json.Unmarshal(raw, &again); err != nil {
		t.Fatal(err)
	}
	return again
}

// TestSharesAreKeptApart: equal models with many errors, at first with a tenth of the traffic and then with half of it. Added up, the
// candidate would seem to have more errors than its share of either.
func TestSharesAreKeptApart(t *testing.T) {
	stage := weightStage(0.1)
	stage.Spec.MinSamples = 1 << 40
	now := stats.Snapshot{Epoch: "e", Revision: 8, Revisions: []stats.Revision{
		{Revision: 7, Weights: map[string]float64{"1": 0.9, "2": 0.1}, Versions: map[string]stats.Counts{"1": counts(900, 900, 0), "2": counts(100, 100, 0)}},
		{Revision: 8, Weights: map[string]float64{"1": 0.5, "2": 0.5}, Versions: map[string]stats.Counts{"1": counts(500, 500, 0), "2": counts(500, 500, 0)}},
	}}
	if _, look, _ := EvaluateStage(stage, State{}, []stats.Snapshot{now}, nil); look.Decision != Hold || look.EValue > 1 {
		t.Errorf("%s, e-value %v: %s", look.Decision, look.EValue, look.Reason)
	}
}

// TestCrashes: a gateway that falls silent without its closing mark is a crash of the releases in use there, and two with the candidate
// hold the stage; one that was only frozen, or that nobody looked at, is none.
func TestCrashes(t *testing.T) {
	stage := weightStage(0.5)
	stage.Spec.MaxWait = spec.Duration(10 * time.Minute)
	enough := counts(1000, 0, time.Millisecond)
	beats := map[string]int64{"a": 1, "b": 1, "c": 1}
	closed := map[string]bool{}
	var state State
	var look spec.Look
	watch := func(seconds int, step time.Duration, beating string) {
		for range seconds {
			stage.Elapsed += step
			var now []stats.Snapshot
			for _, epoch := range []string{"a", "b", "c"} {
				if strings.Contains(beating, epoch) {
					beats[epoch]++
				}
				s := snapshot(epoch, enough, enough)
				s.Beat, s.Active, s.Closed = beats[epoch], []string{"1", "2"}, closed[epoch]
				now = append(now, s)
			}
			state, look, _ = EvaluateStage(stage, state, now, nil)
			state = throughJSON(t, state)
		}
	}
	expect := func(when string, crashes int64, decision string) {
		t.Helper()
		if look.Candidate.Crashes != crashes || look.Stable.Crashes != crashes || look.Decision != decision {
			t.Errorf("%s: %d crashes, %s (%s), want %d and %s", when, look.Candidate.Crashes, look.Decision, look.Reason, crashes, decision)
		}
	}
	watch(5, time.Second, "abc")
	expect("all well", 0, Pass)
	watch(1, time.Hour, "c")
	stage.Elapsed = 10 * time.Second
	expect("nobody looked for an hour", 0, Pass)
	watch(15, time.Second, "bc")
	expect("one killed", 1, Pass)
	watch(15, time.Second, "c")
	expect("two killed", 2, Hold)
	state = state.NextStage()
	stage.Revision, stage.Elapsed = 8, 0
	watch(1, time.Second, "c")
	if look.Candidate.Crashes != 2 {
		t.Errorf("the next stage knows of %d crashes, want 2", look.Candidate.Crashes)
	}
	stage.Revision = 7
	watch(2, time.Second, "bc")
	expect("one was only frozen", 1, Pass)
	closed["b"] = true
	watch(30, time.Second, "c")
	expect("the other one closed", 1, Pass)
	stage.Elapsed = 11 * time.Minute
	closed["b"] = false
	watch(15, time.Second, "c")
	expect("two killed, too late", 2, Abort)
}
