// Package rollout judges the stages of a rollout. It is pure: counts in, a decision out, with a state that the caller keeps between
// looks and that survives as JSON.
package rollout

import (
	"cmp"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/human"
	"github.com/sluiceml/sluice/serving/stats"
)

// The decisions of a look.
const (
	Hold  = "hold"  // look again later
	Pass  = "pass"  // go on to the next stage
	Abort = "abort" // give the traffic back to the stable release
)

// Defaults of what a stage and the tests leave open.
const (
	defaultMinSamples = 100
	defaultMaxWait    = 15 * time.Minute
	defaultAlpha      = 0.01
	defaultMaxRate    = 0.5
)

// Stage is what one look judges.
type Stage struct {
	Spec  spec.Stage
	Tests spec.Tests
	// Of is how many stages the rollout has.
	Of int
	// Candidate and Stable are versions. Stable is empty at a target that served nothing: there is nothing to compare with then, and
	// the stage only waits for its samples.
	Candidate string
	Stable    string
	// Revision is the routing revision that began the stage; what was counted under an earlier one is not the stage's.
	Revision int64
	// Elapsed is the time since the stage began.
	Elapsed time.Duration
	// Paused: the stage cannot pass, whatever its samples. The sequential tests go on, and may end the rollout.
	Paused bool
	// Keyed: traffic is sticky, so that the tests count keys and not requests.
	Keyed bool
}

// Alpha is that of the error test: how often a candidate that is as good may be aborted.
func (s Stage) Alpha() float64 { return cmp.Or(s.Tests.Errors.Alpha, defaultAlpha) }

func (s Stage) maxRate() float64 { return cmp.Or(s.Tests.Errors.MaxRate, defaultMaxRate) }

// HasLoss reports whether there is a loss test.
func (s Stage) HasLoss() bool { return s.Tests.Loss != nil && s.Tests.Loss.Bound > 0 }

// LossAlpha is that of the loss test, which there must be.
func (s Stage) LossAlpha() float64 { return cmp.Or(s.Tests.Loss.Alpha, defaultAlpha) }

// Checks evaluates the stage's conditions, on a look's values and on the answers to its queries. While a query has no answer, it evaluates
// none: the verdict of such a query is hold, and its error says why.
type Checks func(candidate, stable spec.SideCounts, delta spec.Delta) []spec.Check

// EvaluateStage makes one look at a stage. The tests are made first, at every look, and either can end the rollout at any time. A stage
// with its samples is then judged by its checks, once: they decide between pass and abort. Judging them again and again until
// they hold would let chance pass every candidate.
func EvaluateStage(stage Stage, state State, now []stats.Snapshot, checks Checks) (State, spec.Look, []spec.Check) {
	state = state.seen(stage, now)
	counts := state.counts()
	look := spec.Look{
		At: stage.Elapsed.Seconds(), Delta: delta(counts.Shadow), Alpha: stage.Alpha(),
	}
	var late stats.Counts
	state.Errors.Late, late = state.lateEvidence()
	if stage.Keyed && stage.Spec.Shadow > 0 {
		state.Errors = state.keyedDifferences()
	} else {
		state.Errors = state.Errors.Look(state.splits(stage, Tally.split, stats.Keyed.Split)...)
	}
	var rejected string
	if stage.Spec.Shadow > 0 {
		look.Candidate, look.Stable = shadowSides(counts.Shadow)
	} else {
		look.Candidate, look.Stable = side(counts.Candidate), side(counts.Stable)
		rejected, look.Latency = slower(stage, state, counts)
	}
	look.Candidate.ClientErrors, look.Stable.ClientErrors = counts.Candidate.ClientErrors, counts.Stable.ClientErrors
	look.Candidate.Crashes, look.Stable.Crashes = state.crashes(stage.Candidate), state.crashes(stage.Stable)
	state.Refusals = state.Refusals.Look(state.splits(stage, Tally.refusals, stats.Keyed.Refusals)...)
	if state.Refusals.Rejects(look.Alpha) {
		rejected = refusesMore(stage, look, state.Refusals.Value())
	}
	if further := state.further(stage, counts, &look); further != "" {
		rejected = further
	}
	look.EValue = state.Errors.Value()
	look.Samples, look.Counted = samplesOf(stage, state, look)
	switch {
	case !state.Errors.Rejects(look.Alpha):
	case stage.Keyed:
		rejected = state.worseByKey(stage, look)
	default:
		rejected = worse(stage, look, counts.Shadow)
	}
	if rejected == "" {
		rejected = state.moreThanBefore(stage, late)
	} else if late.Failures > 0 {
		rejected += fmt.Sprintf("; %d requests of earlier stages failed after these had ended", late.Failures)
	}
	if rejected != "" {
		look.Decision, look.Reason = Abort, rejected
		return state, look, nil
	}
	var made []spec.Check
	look.Needed = state.needed(stage)
	look.Decision, look.Reason, made = evaluateSamples(stage, look, state.unanswered, checks)
	if asked := cmp.Or(stage.Spec.MinSamples, defaultMinSamples); look.Samples < look.Needed && look.Needed > asked && look.Decision != Pass {
		look.Reason += fmt.Sprintf("; `min_samples` is %d, but with fewer than %d the error test would pass a candidate that fails every request", asked, look.Needed)
	}
	if look.Decision == Pass {
		look.Reason += stage.comparedWith(state.Before)
		if failed := cmp.Or(unusable(stage, state.Before, counts.Candidate.Plus(late)), blind(stage, counts)); failed != "" {
			look.Decision, look.Reason = Abort, failed
		}
	}
	if stage.Keyed {
		look.Reason += state.keyless()
	}
	if n := counts.Candidate.Refused + counts.Stable.Refused; n > 0 {
		look.Reason += fmt.Sprintf("; %d requests were rejected because their label is not a class of the model", n)
	}
	if c, s := look.Candidate.ClientErrors, look.Stable.ClientErrors; c+s > 0 {
		look.Reason += fmt.Sprintf("; %d requests of the candidate were refused with a client error, which does not count", c)
		if stage.Stable != "" {
			look.Reason += fmt.Sprintf(", and %d of the release that serves", s)
		}
	}
	if n := counts.Shadow.NoAnswer; n > 0 && stage.Spec.Shadow > 0 {
		look.Reason += fmt.Sprintf("; the outputs of both releases for %d requests contain no class or string, so they do not count as agreement", n)
	}
	return state, look, made
}

// samplesOf is how many samples a stage has, and what they are.
func samplesOf(stage Stage, state State, look spec.Look) (samples int64, what string) {
	samples, what = look.Candidate.Requests, "answers of the candidate"
	if stage.Keyed {
		samples, what = state.keys(), "keys answered by the candidate"
	}
	if stage.Spec.Shadow > 0 {
		samples, what = look.Delta.Samples, "answers compared"
	}
	if look.Loss != nil {
		samples, what = look.Loss.Samples, "answers with a label"
		if stage.Keyed {
			what = "keys with a labelled answer"
		}
	}
	if streamed, compares := streamedOf(stage, state.counts().Candidate); compares && streamed < samples {
		samples, what = streamed, "streamed answers of the candidate"
	}
	return samples, what
}

// evaluateSamples decides by the number of samples, the requests that are unanswered, the checks and the time.
func evaluateSamples(stage Stage, look spec.Look, unanswered func() int64, checks Checks) (decision, reason string, made []spec.Check) {
	if stage.Spec.Shadow > 0 && stage.Stable == "" && !stage.Paused {
		return Pass, "no release is serving yet, so there is nothing to mirror", nil
	}
	samples, what, needed := look.Samples, look.Counted, look.Needed
	maxWait := cmp.Or(time.Duration(stage.Spec.MaxWait), defaultMaxWait)
	switch crashes := look.Candidate.Crashes; {
	case stage.Paused:
		return Hold, fmt.Sprintf("paused, with %d of %d %s", samples, needed, what), nil
	case crashes >= maxCrashes && stage.Elapsed < maxWait:
		return Hold, crashed(crashes), nil
	case crashes >= maxCrashes && stage.Spec.OnNoData != Hold:
		return Abort, crashed(crashes), nil
	case crashes >= maxCrashes:
		return Hold, crashed(crashes), nil
	case samples >= needed && stage.Elapsed < time.Duration(stage.Spec.Bake):
		return Hold, fmt.Sprintf("%d %s; baking until %v have passed", samples, what, stage.Spec.Bake), nil
	case samples >= needed:
		if open := unanswered(); open > 0 {
			return Hold, fmt.Sprintf("%d %s; waiting for the end of %d requests that had begun by then", samples, what, open), nil
		}
		return evaluateChecks(stage, look, checks)
	case stage.Elapsed < maxWait:
		return Hold, fmt.Sprintf("%d of %d %s", samples, needed, what), nil
	case stage.Spec.OnNoData == Hold:
		return Hold, fmt.Sprintf("%d of %d %s after %v; still waiting, because of on_no_data", samples, needed, what, maxWait), nil
	}
	return Abort, fmt.Sprintf("only %d of %d %s after %v", samples, needed, what, maxWait), nil
}

// maxCrashes is how many gateways may end without a word while they use the candidate: one may be anybody's fault.
const maxCrashes = 2

func crashed(n int64) string {
	return fmt.Sprintf("%d gateways stopped reporting while the candidate was in use; a stage does not pass with %d or more", n, maxCrashes)
}

func evaluateChecks(stage Stage, look spec.Look, checks Checks) (decision, reason string, made []spec.Check) {
	if len(stage.Spec.Checks)+len(stage.Spec.Queries) > 0 {
		made = checks(look.Candidate, look.Stable, look.Delta)
	}
	var failed, unanswered []string
	for _, c := range made {
		switch c.Verdict {
		case spec.VerdictPass:
		case spec.VerdictHold:
			unanswered = append(unanswered, c.Error)
		case spec.VerdictError:
			failed = append(failed, fmt.Sprintf("%s: %s", c.Expression, c.Error))
		default:
			failed = append(failed, c.Expression+" does not hold")
		}
	}
	if len(failed) > 0 {
		return Abort, strings.Join(failed, "; "), made
	}
	maxWait := cmp.Or(time.Duration(stage.Spec.MaxWait), defaultMaxWait)
	switch {
	case len(unanswered) == 0:
	case stage.Elapsed < maxWait || stage.Spec.OnNoData == Hold:
		return Hold, "no answer yet: " + strings.Join(unanswered, "; "), made
	default:
		return Abort, fmt.Sprintf("no answer after %v: %s", maxWait, strings.Join(unanswered, "; ")), made
	}
	return Pass, summary(stage, look), made
}

func summary(stage Stage, look spec.Look) string {
	if stage.Spec.Shadow > 0 {
		return fmt.Sprintf("%d answers compared, %s agree, largest difference %s",
			look.Delta.Samples, human.Percent(look.Delta.Agreement), human.Number(look.Delta.MaxAbs))
	}
	text := fmt.Sprintf("%d requests with %s errors", look.Candidate.Requests, human.Percent(look.Candidate.ErrorRate))
	if look.Stable.Requests > 0 {
		text += fmt.Sprintf(", stable %s", human.Percent(look.Stable.ErrorRate))
	}
	return text
}

func worse(stage Stage, look spec.Look, shadow stats.Shadow) string {
	if stage.Spec.Shadow > 0 {
		return fmt.Sprintf("more errors than the release that serves: of %d mirrored requests %d failed on the candidate only, %d on the other only (e-value %s)",
			shadow.Mirrored, shadow.CandidateOnly, shadow.StableOnly, human.Number(look.EValue))
	}
	return fmt.Sprintf("more errors than the release that serves: %s of %d requests against %s of %d (e-value %s)",
		human.Percent(look.Candidate.ErrorRate), look.Candidate.Requests, human.Percent(look.Stable.ErrorRate), look.Stable.Requests, human.Number(look.EValue))
}

// refusesMore says that the candidate refuses requests that the other release accepts.
func refusesMore(stage Stage, look spec.Look, evidence float64) string {
	what := "requests"
	if stage.Keyed {
		what = "requests, and more keys with such requests,"
	}
	return fmt.Sprintf("more %s are refused with a client error than by the release that serves: %d beside %d answers, and %d beside %d (e-value %s)",
		what, look.Candidate.ClientErrors, look.Candidate.Requests, look.Stable.ClientErrors, look.Stable.Requests, human.Number(evidence))
}

// unusable checks a release that a stage compares with no other, and returns what is wrong with it, or "". before counts what the release did
// that it has taken all the traffic from.
func unusable(stage Stage, before Past, candidate stats.Counts) string {
	limit, alpha := stage.maxRate(), stage.Alpha()
	switch c := candidate; {
	case c.Requests > 0 && c.Failures == c.Requests:
		return fmt.Sprintf("all %d requests failed", c.Requests)
	case stage.Stable != "" && !stage.full():
	case tooMany(c.Wrong, c.Labelled, before.Wrong, before.Labelled, limit, alpha):
		return fmt.Sprintf("%s of %d answers to labelled requests are wrong; without a release to compare with, tests.errors.max_rate allows %s",
			human.Percent(ratio(c.Wrong, c.Labelled)), c.Labelled, human.Percent(limit))
	case tooMany(c.Failures, c.Requests, before.Failures, before.Requests, limit, alpha):
		return fmt.Sprintf("%s of %d requests failed; without a release to compare with, tests.errors.max_rate allows %s",
			human.Percent(ratio(c.Failures, c.Requests)), c.Requests, human.Percent(limit))
	default:
		return tooFar(stage, before, c)
	}
	return ""
}

// blind says that a stage with labels cannot tell the releases apart, because it takes most answers of both to be wrong, "" for not. Labels
// that no answer agrees with look like that, and would let every candidate pass. A candidate that is mostly right passes, however wrong
// the release is that it replaces; and so does any that a loss test has judged.
func blind(stage Stage, counts Counts) string {
	candidate, stable, limit := counts.Candidate, counts.Stable, stage.maxRate()
	if s := counts.Shadow; stage.Spec.Shadow > 0 {
		candidate = stats.Counts{Wrong: s.BothErr + s.CandidateOnly, Labelled: s.Mirrored}
	}
	if stage.Stable == "" || stage.HasLoss() ||
		!beyond(candidate.Wrong, candidate.Labelled, limit, stage.Alpha()) || !beyond(stable.Wrong, stable.Labelled, limit, stage.Alpha()) {
		return ""
	}
	return fmt.Sprintf("the releases cannot be told apart, because both are mostly wrong: %s of %d answers of the candidate and %s of %d of the release that serves"+
		" differ from their labels, and tests.errors.max_rate allows %s; check the labels (`traffic.label`) and `compare`",
		human.Percent(ratio(candidate.Wrong, candidate.Labelled)), candidate.Labelled, human.Percent(ratio(stable.Wrong, stable.Labelled)), stable.Labelled, human.Percent(limit))
}

// slower makes the latency test, and says what it found and why that ends the rollout, "" for not.
func slower(stage Stage, state State, counts Counts) (rejected string, seen *spec.LatencyLook) {
	asked := stage.Tests.Latency
	if asked.Quantile == 0 || stage.Stable == "" {
		return "", nil
	}
	test := stats.LatencyTest{
		Quantile: asked.Quantile,
		Ratio:    cmp.Or(asked.Ratio, 1),
		Alpha:    cmp.Or(asked.Alpha, defaultAlpha) / float64(max(stage.Of, 1)), // each stage compares anew
	}
	what, candidate, stable := timesOf(asked.Of, counts.Candidate, counts.Stable)
	var look stats.LatencyLook
	if stage.Keyed {
		look = state.keyedLatency(test, asked.Of)
	} else {
		look = test.Look(candidate, stable)
	}
	seen = &spec.LatencyLook{Quantile: test.Quantile, Of: asked.Of, Ratio: test.Ratio, CandidateLowerMS: milliseconds(look.CandidateLower)}
	if look.StableUpper != stats.Unbounded {
		seen.StableUpperMS = milliseconds(look.StableUpper)
	}
	if !look.Rejected {
		return "", seen
	}
	return fmt.Sprintf("slower than allowed: quantile %v of its %s is at least %s ms, and the serving release's at most %s ms (allowed ratio %s)",
		test.Quantile, what, human.Number(seen.CandidateLowerMS), human.Number(seen.StableUpperMS), human.Number(test.Ratio)), seen
}

func side(c stats.Counts) spec.SideCounts {
	return withTokens(sideOf(c.Requests, c.Errors(), c.Latency), c)
}

// shadowSides are both sides of mirrored requests. Only the candidate's latency is known apart from users' requests.
func shadowSides(s stats.Shadow) (candidate, stable spec.SideCounts) {
	return sideOf(s.Mirrored, s.BothErr+s.CandidateOnly, s.Latency), sideOf(s.Mirrored, s.BothErr+s.StableOnly, stats.Histogram{})
}

func sideOf(requests, errors int64, latency stats.Histogram) spec.SideCounts {
	return spec.SideCounts{
		Requests:  requests,
		Errors:    errors,
		ErrorRate: ratio(errors, requests),
		P50MS:     milliseconds(latency.Quantile(0.5)),
		P99MS:     milliseconds(latency.Quantile(0.99)),
	}
}

func delta(s stats.Shadow) spec.Delta {
	return spec.Delta{Samples: s.Samples, Agreement: ratio(s.Agree, s.Samples), MaxAbs: s.MaxAbs}
}

// milliseconds rounds to a microsecond: more digits than the histogram knows are noise to a reader.
func milliseconds(d time.Duration) float64 { return math.Round(float64(d)/1e3) / 1e3 }

func ratio(part, whole int64) float64 {
	if whole == 0 {
		return 0
	}
	return float64(part) / float64(whole)
}
