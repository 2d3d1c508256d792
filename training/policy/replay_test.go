package policy_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/training/policy"
)

var prices = spec.Prices{OnDemand: 3.06, Spot: 0.9731}

// traces reads the excerpt that is kept here.
func traces(t *testing.T) []policy.Trace {
	t.Helper()
	names, err := filepath.Glob("testdata/*.json")
	if err != nil || len(names) != 4 {
		t.Fatalf("%d traces, %v; want 4", len(names), err)
	}
	var all []policy.Trace
	for _, name := range names {
		raw, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		trace, err := policy.ReadTrace(bytes.NewReader(raw), 1, time.Hour)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		all = append(all, trace)
	}
	return all
}

// meanCost is what a job costs on the mean of all windows.
func meanCost(t *testing.T, s policy.Strategy, job policy.Job, all []policy.Trace) float64 {
	t.Helper()
	var cost float64
	n := 0
	for _, trace := range all {
		for i, w := range trace.Windows {
			out := policy.Replay(s, job, w, trace.Gap())
			if out.Late > 0 {
				t.Errorf("%s, window %d: %v late", trace.Instance, i, out.Late)
			}
			if bound := policy.Bound(job, w, trace.Gap()); out.CostUSD < bound-1e-6 {
				t.Errorf("%s, window %d: $%f is less than the bound of $%f", trace.Instance, i, out.CostUSD, bound)
			}
			cost += out.CostUSD
			n++
		}
	}
	return cost / float64(n)
}

// On real traces the policy costs less than the better of the two it is measured against, whether the deadline is tight or loose and
// changeovers are short or long, and misses no deadline.
func TestCostsLessThanTheBetter(t *testing.T) {
	all := traces(t)
	for _, hours := range []int{52, 70, 92} {
		for _, minutes := range []int{3, 12} {
			t.Run(fmt.Sprintf("%d h, %d min", hours, minutes), func(t *testing.T) {
				job := policy.Job{
					Work: 48 * time.Hour, Within: time.Duration(hours) * time.Hour, Changeover: time.Duration(minutes) * time.Minute, Prices: prices,
				}
				ours := meanCost(t, policy.Decide, job, all)
				better := min(meanCost(t, policy.Greedy, job, all), meanCost(t, policy.UniformProgress, job, all))
				if ours > better {
					t.Errorf("$%.2f on the mean, and the better of the others $%.2f", ours, better)
				}
			})
		}
	}
}

// Whatever spot does, and whatever work it takes along, a deadline that on-demand from the start would keep is kept.
func TestMissesNoDeadline(t *testing.T) {
	for range 20 { // what goes wrong may be rare
		rapid.Check(t, missesNoDeadline)
	}
}

func missesNoDeadline(t *rapid.T) {
	gap := time.Duration(rapid.IntRange(1, 1200).Draw(t, "gap")) * time.Second
	job := policy.Job{
		Work:       time.Duration(rapid.IntRange(1, 100_000).Draw(t, "work")) * time.Second,
		Changeover: time.Duration(rapid.IntRange(0, 3000).Draw(t, "changeover")) * time.Second,
		Every:      time.Duration(rapid.SampledFrom([]int{0, 60, 600, 7200, 100_000}).Draw(t, "every")) * time.Second,
		Prices:     spec.Prices{Spot: rapid.Float64Range(0, 4).Draw(t, "spot"), OnDemand: rapid.Float64Range(0, 4).Draw(t, "on demand")},
	}
	job.Work = min(job.Work, 400*gap)
	job.Within = job.Work + job.Changeover + time.Duration(rapid.IntRange(0, 50_000).Draw(t, "slack"))*time.Second
	// Runs of both kinds, from single intervals to longer than anything lasts.
	var b strings.Builder
	for b.Len() < 600 {
		b.WriteString(strings.Repeat(rapid.SampledFrom([]string{"0", "1"}).Draw(t, "spot is there"), rapid.IntRange(1, 60).Draw(t, "for")))
	}
	out := policy.Replay(policy.Decide, job, policy.Window{Available: b.String()}, gap)
	if out.Late > 0 {
		t.Fatalf("%v late: %+v", out.Late, out)
	}
	if got, want := out.OnSpot+out.OnDemand+out.Waited, job.Within+out.Late; got != want {
		t.Fatalf("%v are accounted for, want %v", got, want)
	}
}

func TestReplay(t *testing.T) {
	job := policy.Job{Work: 4 * time.Hour, Within: 10 * time.Hour, Changeover: 30 * time.Minute, Prices: spec.Prices{Spot: 1, OnDemand: 3}}
	spotOnly := func(policy.State) policy.Decision { return policy.Decision{Spot: true} }
	for _, tt := range []struct {
		name      string
		decide    policy.Strategy
		available string
		want      policy.Outcome
	}{
		{"on-demand", policy.OnDemand, "1", policy.Outcome{CostUSD: 13.5, Late: -5*time.Hour - 30*time.Minute, Changeovers: 1, OnDemand: 4*time.Hour + 30*time.Minute}},
		{"spot that stays", spotOnly, "111111", policy.Outcome{CostUSD: 4.5, Late: -5*time.Hour - 30*time.Minute, Changeovers: 1, OnSpot: 4*time.Hour + 30*time.Minute}},
		{"spot that goes away", spotOnly, "11001111", policy.Outcome{CostUSD: 5, Late: -3 * time.Hour, Changeovers: 2, OnSpot: 5 * time.Hour, Waited: 2 * time.Hour}},
		{"greedy waits until it must not", policy.Greedy, "0", policy.Outcome{
			CostUSD: 13.5, Late: -30 * time.Minute, Changeovers: 1, OnDemand: 4*time.Hour + 30*time.Minute, Waited: 5 * time.Hour,
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := policy.Replay(tt.decide, job, policy.Window{Available: tt.available}, time.Hour); got != tt.want {
				t.Errorf("got  %+v\nwant %+v", got, tt.want)
			}
		})
	}
}

func TestStretches(t *testing.T) {
	job := policy.Job{Work: 4 * time.Hour, Within: 10 * time.Hour, Changeover: 30 * time.Minute}
	spotOnly := func(policy.State) policy.Decision { return policy.Decision{Spot: true} }
	const h = time.Hour
	want := []policy.Stretch{
		{Capacity: spec.CapacitySpot, Trains: h / 2, To: 2 * h, Done: 3 * h / 2},
		{From: 2 * h, Trains: 4 * h, To: 4 * h, Done: 3 * h / 2},
		{Capacity: spec.CapacitySpot, From: 4 * h, Trains: 9 * h / 2, To: 7 * h, Done: 4 * h},
	}
	if diff := cmp.Diff(want, policy.Stretches(spotOnly, job, policy.Window{Available: "11001111"}, h)); diff != "" {
		t.Error(diff)
	}
}
