package policy_test

import (
	"math"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/training/policy"
)

func TestBound(t *testing.T) {
	const h = time.Hour
	job := func(work, within, changeover time.Duration, spot, onDemand float64) policy.Job {
		return policy.Job{Work: work, Within: within, Changeover: changeover, Prices: spec.Prices{Spot: spot, OnDemand: onDemand}}
	}
	for _, tt := range []struct {
		name      string
		job       policy.Job
		available string
		want      float64
	}{
		{"spot all the time", job(4*h, 10*h, h/2, 1, 3), "1111111111", 4.5},
		{"no spot at all", job(4*h, 10*h, h/2, 1, 3), "0000000000", 13.5},
		{"it waits for spot that comes", job(4*h, 10*h, h/2, 1, 3), "0000011111", 4.5},
		{"on-demand, for spot comes too late", job(4*h, 10*h, h/2, 1, 3), "0000000011", 3*3 + 2},
		{"spot that is dearer is left alone", job(4*h, 10*h, h/2, 3, 1), "1111111111", 4.5},
		{"spot that stays for less than a changeover is worth nothing", job(4*h, 20*h, 2*h, 1, 3), "1100110011001100", 18},
		{"a changeover that costs more than spot saves is not made", job(4*h, 20*h, h, 2, 3), "1001001001001001001", 15},
		{"changeovers for nothing", job(4*h, 6*h, 0, 1, 3), "101010", 3 + 3},
		{"nothing keeps the deadline", job(4*h, 4*h, h, 1, 3), "1111", math.Inf(1)},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := policy.Bound(tt.job, policy.Window{Available: tt.available}, h); math.Abs(got-tt.want) > 1e-9 && got != tt.want {
				t.Errorf("$%g, want $%g", got, tt.want)
			}
		})
	}
}

// whole draws a job and a gap of whole multiples of the tick, and a window.
func whole(t *rapid.T, tick time.Duration, intervals int) (job policy.Job, w policy.Window, gap time.Duration) {
	ticks := func(name string, from, to int) time.Duration {
		return time.Duration(rapid.IntRange(from, to).Draw(t, name)) * tick
	}
	gap = ticks("gap", 1, 12)
	n := time.Duration(intervals)
	job = policy.Job{
		Changeover: ticks("changeover", 0, 30),
		Prices:     spec.Prices{Spot: rapid.Float64Range(0, 4).Draw(t, "spot"), OnDemand: rapid.Float64Range(0, 4).Draw(t, "on demand")},
	}
	job.Work = ticks("work", 1, max(1, int(n*gap/tick)))
	job.Within = job.Work + job.Changeover + ticks("slack", 0, int(n*gap/tick))
	var b strings.Builder
	for b.Len() < intervals {
		b.WriteString(strings.Repeat(rapid.SampledFrom([]string{"0", "1"}).Draw(t, "spot is there"), rapid.IntRange(1, max(1, intervals/3)).Draw(t, "for")))
	}
	return job, policy.Window{Available: b.String()[:intervals]}, gap
}

// scripted plays a script, one character for each interval, and goes on with the last.
func scripted(script []byte) policy.Strategy {
	i := 0
	return func(policy.State) policy.Decision {
		what := script[min(i, len(script)-1)]
		i++
		return policy.Decision{Spot: what == 's', OnDemand: what == 'o'}
	}
}

// cheapest tries whatever can be done in the intervals before the deadline.
func cheapest(job policy.Job, w policy.Window, gap time.Duration) float64 {
	script := make([]byte, (job.Within+gap-1)/gap)
	least := math.Inf(1)
	var try func(i int)
	try = func(i int) {
		if i == len(script) {
			if out := policy.Replay(scripted(append(script, 'o')), job, w, gap); out.Late <= 0 {
				least = min(least, out.CostUSD)
			}
			return
		}
		for _, what := range "_so" {
			script[i] = byte(what)
			try(i + 1)
		}
	}
	try(0)
	return least
}

// On windows so small that everything can be tried the bound is what the best costs.
func TestBoundIsTheBest(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		job, w, gap := whole(t, time.Minute, 4)
		job.Within = min(job.Within, 7*gap)
		bound, best := policy.Bound(job, w, gap), cheapest(job, w, gap)
		if bound != best && math.Abs(bound-best) > 1e-9 {
			t.Fatalf("$%g, and the best of all costs $%g", bound, best)
		}
	})
}

// Nobody who is in time costs less than the bound, also where times share no tick and work is lost.
func TestNobodyCostsLessThanTheBound(t *testing.T) {
	strategies := map[string]policy.Strategy{
		"the policy": policy.Decide, "greedy": policy.Greedy, "uniform progress": policy.UniformProgress, "on-demand": policy.OnDemand,
	}
	rapid.Check(t, func(t *rapid.T) {
		job, w, gap := whole(t, rapid.SampledFrom([]time.Duration{time.Minute, time.Second, 7*time.Minute + 13*time.Nanosecond}).Draw(t, "tick"), 200)
		for _, d := range []*time.Duration{&job.Work, &job.Changeover, &job.Within, &gap} {
			*d += time.Duration(rapid.SampledFrom([]int{0, 0, 1, 12345, 1e9 + 7}).Draw(t, "more")) // nanoseconds
		}
		job.Every = time.Duration(rapid.SampledFrom([]int{0, 60, 7200}).Draw(t, "every")) * time.Second
		bound := policy.Bound(job, w, gap)
		for name, s := range strategies {
			if out := policy.Replay(s, job, w, gap); out.Late <= 0 && out.CostUSD < bound*(1-1e-9)-1e-9 {
				t.Fatalf("%s costs $%g, and the bound is $%g", name, out.CostUSD, bound)
			}
		}
	})
}
