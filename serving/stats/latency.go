package stats

import (
	"math"
	"time"
)

// Unbounded is the upper end of a band when there are too few latencies to bound the quantile.
const Unbounded = time.Duration(math.MaxInt64)

// QuantileBand returns bounds of a latency quantile q, which with probability 1-alpha each hold at every look at a growing
// histogram of independent latencies.
//
// A latency x is out of the band below when so few latencies are at or below x that a binomial e-process with success probability q
// reaches 1/alpha, and out of it above when too many are below x. (The beta-binomial confidence sequences of Howard, Ramdas:
// Sequential Estimation of Quantiles, Bernoulli 2022, with the mixture of LogEvidence; the histogram's buckets widen the band.)
func QuantileBand(h Histogram, q, alpha float64) (lower, upper time.Duration) {
	total := h.Count()
	limit := -math.Log(alpha)
	rejects := func(below int64) bool { return LogEvidence(below, total-below, q) >= limit }
	upper = Unbounded
	var before int64
	lowerFound := false
	for _, i := range h.indexes() {
		atOrBelow := before + h.Buckets[i]
		if !lowerFound && (float64(atOrBelow) >= q*float64(total) || !rejects(atOrBelow)) {
			lower, lowerFound = lowerEdge(i), true
		}
		if float64(before) > q*float64(total) && rejects(before) {
			break
		}
		before = atOrBelow
		upper = upperEdge(i)
	}
	if !rejects(total) {
		upper = Unbounded // even the largest latency seen may be below the quantile
	}
	return lower, upper
}

// LatencyTest compares a latency quantile of candidate and stable release.
type LatencyTest struct {
	Quantile float64
	// Ratio the candidate's quantile may be of the stable one's.
	Ratio float64
	// Alpha bounds the chance that a candidate within the ratio is ever rejected.
	Alpha float64
}

// LatencyLook is one look of a LatencyTest.
type LatencyLook struct {
	CandidateLower time.Duration
	StableUpper    time.Duration
	// Rejected: the candidate's quantile is above Ratio times the stable one's.
	Rejected bool
}

// Look takes the cumulative latencies of both sides. It rejects when even the lowest credible quantile of the candidate is above
// Ratio times the highest credible one of the stable release.
func (t LatencyTest) Look(candidate, stable Histogram) LatencyLook {
	var look LatencyLook
	look.CandidateLower, _ = QuantileBand(candidate, t.Quantile, t.Alpha/2)
	_, look.StableUpper = QuantileBand(stable, t.Quantile, t.Alpha/2)
	look.Rejected = t.Rejects(look.CandidateLower, look.StableUpper)
	return look
}

// Rejects reports whether a candidate whose quantile is at least lower is above the ratio, when that of the stable release is at most upper.
func (t LatencyTest) Rejects(lower, upper time.Duration) bool {
	return upper != Unbounded && float64(lower) > t.Ratio*float64(upper)
}
