package main

import (
	"math"
	"testing"
)

// TestJudges is the bench in small: our judge aborts few rollouts of equal models and finds the others, where those that are not made for many
// looks abort many.
func TestJudges(t *testing.T) {
	const rollouts = 60
	for _, kind := range kinds {
		f, err := judge(t.Context(), kind, rollouts)
		if err != nil {
			t.Fatal(err)
		}
		switch got := f.aborted(ours); {
		case kind.worse && got < 0.9:
			t.Errorf("%s: %.0f%% were found", kind.name, 100*got)
		case !kind.worse && got > 0.03:
			t.Errorf("%s: %.0f%% were aborted", kind.name, 100*got)
		case !kind.worse && kind.stableLoss == 0 && f.aborted("success rate, failureLimit 0") < 0.5:
			t.Errorf("%s: a success rate at every look aborts %v; the simulation shows nothing", kind.name, f.aborted("success rate, failureLimit 0"))
		}
	}
}

// TestPeers holds the other judges to numbers that are known of them.
func TestPeers(t *testing.T) {
	looks := func(n int, candidate, stable sample, judge judging) int {
		for i := range n {
			if judge.aborts(nil, both{candidate, stable}) {
				return i + 1
			}
		}
		return 0
	}
	for _, tc := range []struct {
		name              string
		judge             judging
		candidate, stable sample
		want              int
	}{
		{"the fourth failed measurement", &successRate{limit: 3}, sample{requests: 100, errors: 3}, sample{}, 4},
		{"98% is met", &successRate{}, sample{requests: 100, errors: 2}, sample{}, 0},
		// z = 0.02/sqrt(0.02·0.98·2/n), which is 2.3263 at n = 530.
		{"z at 600 requests", &zTest{of: errorRate}, sample{requests: 100, errors: 3}, sample{requests: 100, errors: 1}, 6},
		{"equal", &zTest{of: errorRate}, sample{requests: 100, errors: 1}, sample{requests: 100, errors: 1}, 0},
		// nm/2 - 2.3263·sqrt(nm(n+m+1)/12) is 1.36 for n = m = 5, and 0.2 for 4.
		{"five points each", &mannWhitney{of: errorRate}, sample{requests: 100, errors: 3}, sample{requests: 100, errors: 1}, 5},
		{"equal points", &mannWhitney{of: errorRate}, sample{requests: 100, errors: 1}, sample{requests: 100, errors: 1}, 0},
	} {
		if got := looks(20, tc.candidate, tc.stable, tc.judge); got != tc.want {
			t.Errorf("%s: aborted at look %d, want %d", tc.name, got, tc.want)
		}
	}
}

func TestMedianLooks(t *testing.T) {
	f := found{"a": {3, 5, 0, 7, 2}, "b": {0, 0, 0, 1}}
	if got := []float64{f.medianLooks("a"), f.medianLooks("b"), math.Round(100 * f.aborted("a"))}; got[0] != 5 || got[1] != 0 || got[2] != 80 {
		t.Errorf("median looks and aborts %v", got)
	}
}
