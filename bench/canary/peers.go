package main

import (
	"math"
	"slices"
)

// judging is a way to judge a canary. It is asked at each look whether to abort; now is what was counted in the stage, and since what was
// counted since the look before.
type judging interface {
	aborts(now *counted, since both) bool
}

// peers are the other ways. Each is written from its published description.
func peers() map[string]judging {
	return map[string]judging{
		"success rate, failureLimit 0": &successRate{limit: 0},
		"success rate, failureLimit 3": &successRate{limit: 3},
		"z-test at each look":          &zTest{of: errorRate},
		"Mann-Whitney (Kayenta)":       &mannWhitney{of: errorRate},
	}
}

// peersOfLosses are those that judge numbers.
func peersOfLosses() map[string]judging {
	return map[string]judging{
		"z-test at each look":    &zTest{of: meanLoss},
		"Mann-Whitney (Kayenta)": &mannWhitney{of: meanLoss},
	}
}

// measure is what a judge compares: its mean in a sample, and the variance of one request.
type measure func(s sample) (mean, variance float64)

func errorRate(s sample) (mean, variance float64) { return s.rate(), s.rate() * (1 - s.rate()) }

func meanLoss(s sample) (mean, variance float64) {
	mean = s.losses.Mean()
	return mean, s.losses.Squares/float64(max(s.losses.N, 1)) - mean*mean
}

// successRate is an AnalysisTemplate of Argo Rollouts with the successCondition `result >= 0.98`: a measurement that does not meet it fails, and
// the analysis fails when more measurements have failed than failureLimit. (argo-rollouts.readthedocs.io, Analysis & Progressive Delivery.)
type successRate struct{ limit, failed int }

func (s *successRate) aborts(_ *counted, since both) bool {
	if 1-since.candidate.rate() < 0.98 {
		s.failed++
	}
	return s.failed > s.limit
}

// zTest is the test of two means with the pooled variance, one-sided at 0.01, of all that was counted so far: the textbook's, for one look, made
// again at each.
type zTest struct {
	of  measure
	sum both
}

// z99 is the 99th percentile of the normal distribution: 0.01 on one side, and 98% between both.
const z99 = 2.3263

func (z *zTest) aborts(_ *counted, since both) bool {
	z.sum = z.sum.plus(since)
	c, s := z.sum.candidate, z.sum.stable
	if c.requests == 0 || s.requests == 0 {
		return false
	}
	n, m := float64(c.requests), float64(s.requests)
	_, pooled := z.of(c.plus(s))
	deviation := math.Sqrt(pooled * (1/n + 1/m))
	candidate, _ := z.of(c)
	stable, _ := z.of(s)
	return deviation > 0 && (candidate-stable)/deviation > z99
}

// mannWhitney is Kayenta's judge of one metric, such as the error rate, whose points are looks: a Mann-Whitney test at 98%, with the confidence interval
// of the shift between both series and its Hodges-Lehmann estimate. The metric is High when the interval's lower end is above 0.25 times the
// estimate. (Graff, Sanden: Automated Canary Analysis at Netflix with Kayenta, 2018; github.com/spinnaker/kayenta, docs/canary-config.md.)
// The interval is that of the normal approximation, as for the many ties of error rates.
type mannWhitney struct {
	of                measure
	candidate, stable []float64
	shifts            []float64 // candidate - stable of all pairs of points, sorted
}

const tolerance = 0.25

func (k *mannWhitney) aborts(_ *counted, since both) bool {
	candidate, _ := k.of(since.candidate)
	stable, _ := k.of(since.stable)
	k.add(candidate, stable)
	n := float64(len(k.candidate))
	// The k-th smallest shift bounds the interval, k = nm/2 - z·sqrt(nm(n+m+1)/12).
	low := int(math.Floor(n*n/2 - z99*math.Sqrt(n*n*(2*n+1)/12)))
	if low < 1 {
		return false // too few points for 98%
	}
	middle := len(k.shifts) / 2
	estimate := k.shifts[middle]
	if len(k.shifts)%2 == 0 {
		estimate = (k.shifts[middle-1] + k.shifts[middle]) / 2
	}
	lower := k.shifts[low-1]
	return lower > 0 && lower > tolerance*math.Abs(estimate)
}

// add adds a point to both series.
func (k *mannWhitney) add(candidate, stable float64) {
	k.candidate, k.stable = append(k.candidate, candidate), append(k.stable, stable)
	for _, s := range k.stable {
		k.shifts = append(k.shifts, candidate-s)
	}
	for _, c := range k.candidate[:len(k.candidate)-1] {
		k.shifts = append(k.shifts, c-stable)
	}
	slices.Sort(k.shifts)
}
