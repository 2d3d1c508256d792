package rollout

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/human"
	"github.com/sluiceml/sluice/serving/stats"
)

// Past counts what the serving release did in earlier stages: all that a candidate with all the traffic can be compared with.
type Past struct {
	Requests int64        `json:"requests"`
	Failures int64        `json:"failures,omitempty"`
	Labelled int64        `json:"labelled,omitempty"`
	Wrong    int64        `json:"wrong,omitempty"`
	Losses   stats.Losses `json:"losses,omitzero"`
}

func (p Past) plus(c stats.Counts) Past {
	return Past{
		Requests: p.Requests + c.Requests, Failures: p.Failures + c.Failures, Labelled: p.Labelled + c.Labelled, Wrong: p.Wrong + c.Wrong,
		Losses: p.Losses.Plus(c.Losses),
	}
}

// full reports whether a candidate has taken all the traffic of a release that served.
func (s Stage) full() bool { return s.Stable != "" && s.Spec.Weight >= 1 }

// answered returns the counts of both releases in the stage. With sticky traffic only the first answer to each key counts; copies is the
// number of gateways, each of which may have counted the same key.
func (s State) answered() (candidate, stable stats.Counts, copies int) {
	for _, life := range s.Epochs {
		keyed := false
		for _, t := range life.Tallies {
			if t.Keys != nil {
				candidate, stable, keyed = candidate.Plus(t.Keys.Candidate), stable.Plus(t.Keys.Stable), true
			}
		}
		if keyed {
			copies++
		}
	}
	if copies == 0 {
		all := s.counts()
		return all.Candidate, all.Stable, 1
	}
	return candidate, stable, copies
}

// moreThanBefore compares a candidate that has all the traffic with what the previous release did in earlier stages. It returns why the
// rollout must end, or "".
func (s State) moreThanBefore(stage Stage, late stats.Counts) string {
	if !stage.full() {
		return ""
	}
	now, _, copies := s.answered()
	before := s.Before
	now.Requests, now.Failures = now.Requests+late.Requests, now.Failures+late.Failures
	if risen(now.Failures, now.Requests, before.Failures, before.Requests, copies, stage.Alpha()) {
		return fmt.Sprintf("%s of %d requests failed, and %s of %d with the release before, in earlier stages",
			human.Percent(ratio(now.Failures, now.Requests)), now.Requests, human.Percent(ratio(before.Failures, before.Requests)), before.Requests)
	}
	if risen(now.Wrong, now.Labelled, before.Wrong, before.Labelled, copies, stage.Alpha()) {
		return fmt.Sprintf("%s of %d answers to labelled requests are wrong, and %s of %d of the release before, in earlier stages",
			human.Percent(ratio(now.Wrong, now.Labelled)), now.Labelled, human.Percent(ratio(before.Wrong, before.Labelled)), before.Labelled)
	}
	return ""
}

// risen reports whether a candidate's share of errors is more than twice that of the previous release and chance does not explain it, however
// often it is asked. Twice, because the requests of another hour may be harder. The previous release's share is only estimated from the errors
// it had, so 2.5 errors and 5 requests are added to its counts: the estimate is then too low by half with a probability of less than 1%.
func risen(errors, of, before, ofBefore int64, copies int, alpha float64) bool {
	limit := 2 * (float64(before) + 2.5) / (float64(ofBefore) + 5)
	if ofBefore == 0 || ratio(errors, of) <= limit {
		return false
	}
	return stats.LogEvidence(errors, of-errors, limit)/float64(copies) >= -math.Log(alpha)
}

// needed is how many samples a stage passes with: those that it asks for, and as many as its tests need to find a candidate that fails
// every request.
func (s State) needed(stage Stage) int64 {
	asked := cmp.Or(stage.Spec.MinSamples, defaultMinSamples)
	alpha := stage.Alpha()
	switch before := s.Before; {
	case stage.Stable == "" || stage.full() && before.Requests == 0: // then any number tells
		return asked
	case stage.full():
		_, _, copies := s.answered()
		for n := asked; n < maxNeeded; n++ {
			if risen(n, n, before.Failures, before.Requests, copies, alpha) || tooMany(n, n, before.Failures, before.Requests, stage.maxRate(), alpha) {
				return n
			}
		}
		return asked // the release before failed so often that one which fails always is hardly worse; see unusable
	case stage.Spec.Shadow > 0 && stage.Keyed:
		return max(asked, spec.LeastErrors(0.5, alpha*stats.Part(0), s.Errors.Finished+s.Errors.Late))
	case stage.Spec.Shadow > 0:
		return max(asked, spec.LeastErrors(0.5, alpha, s.Errors.Finished+s.Errors.Late))
	}
	share := float64(stage.Spec.Weight)
	if len(s.Cells) > 0 { // of the keys that are new
		share = s.Cells[slices.Max(slices.Collect(maps.Keys(s.Cells)))].Split().Share
	}
	return max(asked, spec.LeastErrors(share, alpha, s.Errors.Finished+s.Errors.Late))
}

// maxNeeded bounds the search for a number of samples.
const maxNeeded = 10_000

// tooMany reports whether a share of errors exceeds an absolute limit. If the counts of the previous release are known, chance must not
// explain the excess, and that release must have kept to the limit itself.
func tooMany(errors, of, before, ofBefore int64, limit, alpha float64) bool {
	if ofBefore == 0 {
		return ratio(errors, of) > limit
	}
	return ratio(before, ofBefore) <= limit && beyond(errors, of, limit, alpha)
}

// beyond reports whether a share exceeds a limit and chance does not explain it.
func beyond(part, whole int64, limit, alpha float64) bool {
	return whole > 0 && ratio(part, whole)-limit > chance(whole, alpha)
}

// chance is the amount that the mean of n outcomes from 0 to 1 exceeds its expectation by with a probability of at most alpha (Hoeffding's
// inequality).
func chance(n int64, alpha float64) float64 { return math.Sqrt(-math.Log(alpha) / (2 * float64(n))) }

// comparedWith says what a candidate that has all the traffic was compared with.
func (s Stage) comparedWith(before Past) string {
	switch {
	case !s.full():
		return ""
	case before.Requests == 0:
		return fmt.Sprintf("; the release before had no requests in an earlier stage to compare with, so only tests.errors.max_rate (%s) held for its errors", human.Percent(s.maxRate()))
	}
	return fmt.Sprintf("; the release before had %s of %d in earlier stages", human.Percent(ratio(before.Failures+before.Wrong, before.Requests)), before.Requests)
}
