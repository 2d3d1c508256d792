package rollout

import (
	"math"
	"time"

	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/serving/stats"
)

// timesOf returns what a latency test compares, and what that is called.
func timesOf(of string, candidate, stable stats.Counts) (what string, ofCandidate, ofStable stats.Histogram) {
	switch of {
	case "first_token":
		return "time to the first token", candidate.FirstToken, stable.FirstToken
	case "token":
		return "time per token", candidate.PerToken, stable.PerToken
	}
	return "latency", candidate.Latency, stable.Latency
}

// streamedOf is how many answers of a candidate the latency test of a stage has the times of tokens of; compares says that it needs them.
func streamedOf(stage Stage, candidate stats.Counts) (n int64, compares bool) {
	of := stage.Tests.Latency
	if of.Quantile == 0 || stage.Stable == "" || stage.Spec.Shadow > 0 || of.Of != "first_token" && of.Of != "token" {
		return 0, false
	}
	_, times, _ := timesOf(of.Of, candidate, stats.Counts{})
	return times.Count(), true
}

// withTokens adds what is known of answers that were streamed.
func withTokens(side spec.SideCounts, c stats.Counts) spec.SideCounts {
	side.FirstTokenP50MS, side.FirstTokenP99MS = milliseconds(c.FirstToken.Quantile(0.5)), milliseconds(c.FirstToken.Quantile(0.99))
	if each := c.PerToken.Quantile(0.5); each > 0 {
		side.TokensPerSecond = math.Round(10*float64(time.Second)/float64(each)) / 10
	}
	return side
}
