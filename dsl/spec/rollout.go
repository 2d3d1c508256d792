package spec

import (
	"errors"
	"fmt"
	"math"

	"github.com/sluiceml/sluice/internal/artifact"
)

// Rollout moves the traffic of a target to a model in stages, and rolls back at once if a test fails.
type Rollout struct {
	// Target is the target of the environment that serves the model. Its name is also the model's name in the inference protocol.
	Target string `json:"target" dsl:"literal"`
	// Model is the model to release.
	Model artifact.Ref `json:"model" dsl:"artifact=model"`
	// Traffic replays a split of a dataset to the target during the rollout.
	Traffic Traffic `json:"traffic,omitzero"`
	// WarmUp sends rows of a dataset to the model when it is loaded, before it gets traffic. Default: the rows of `traffic`; without those,
	// made-up inputs.
	WarmUp *WarmUp `json:"warm_up,omitempty"`
	// Compare says how an answer is compared with that of the serving release, and with the label: a rule, or a list of rules for several
	// outputs, all of which must agree. A label is compared by the first rule. Default: the first output.
	Compare []Compare `json:"compare,omitempty" dsl:"literal,single"`
	// Stages in order; the last must be weight 100%.
	Stages []Stage `json:"stages"`
	// Sticky gives the requests of one key, such as a user, the same release. The tests then count keys, each once.
	Sticky Sticky `json:"sticky,omitzero" dsl:"literal"`
	// Tests are the sequential tests of every stage.
	Tests Tests `json:"tests,omitzero"`
	// Ungated must be true if the rollout does not wait for a gate.
	Ungated bool `json:"ungated,omitempty" dsl:"literal"`
}

// Sticky says where the key of a request is: exactly one of Header and Field.
type Sticky struct {
	// Header is the name of the request's header with the key; over gRPC that of its metadata.
	Header string `json:"header,omitempty"`
	// Field is the name of the request's parameter with the key, or of the input if there is no such parameter.
	Field string `json:"field,omitempty"`
}

// Traffic replays labelled rows as requests.
type Traffic struct {
	// Replay is the dataset whose rows are sent as requests.
	Replay artifact.Ref `json:"replay,omitzero" dsl:"artifact=dataset"`
	// Split of the dataset. Default test.
	Split string `json:"split,omitempty" dsl:"default=test"`
	// RPS is requests per second. Default 50.
	RPS float64 `json:"rps,omitempty" dsl:"default=50,min=0.01,max=100000"`
	// Seed of the order of the rows. Each pass over the split has another order.
	Seed int64 `json:"seed,omitempty"`
	// Label is the column with the correct answer; an answer that does not agree with it by `compare` counts as an error. It contains a class
	// number or a boolean, a text if the model answers with text, or a number for `rule: tolerance` or `rule: exact`.
	Label string `json:"label,omitempty"`
}

// WarmUp are rows that a model is asked before it gets traffic: up to 16, the first ones of a split.
type WarmUp struct {
	// Dataset has the rows. Columns named as the model's inputs become its tensors.
	Dataset artifact.Ref `json:"dataset" dsl:"artifact=dataset"`
	// Split of the dataset. Default test.
	Split string `json:"split,omitempty" dsl:"default=test"`
}

// Stage is one step of a rollout: exactly one of Shadow and Weight.
type Stage struct {
	// Shadow is the share of requests that is mirrored to the candidate; users get the answers of the stable release.
	Shadow Share `json:"shadow,omitempty"`
	// Weight is the candidate's share of traffic.
	Weight Share `json:"weight,omitempty"`
	// MinSamples is the number of candidate answers that the stage needs before it may pass. Default 100.
	MinSamples int64 `json:"min_samples,omitempty" dsl:"default=100,min=1"`
	// MaxWait is the maximum duration of the stage. Default 15m.
	MaxWait Duration `json:"max_wait,omitempty" dsl:"default=15m"`
	// OnNoData is what happens at `max_wait` without `min_samples`: abort (default), or hold, which keeps waiting.
	OnNoData string `json:"on_no_data,omitempty" dsl:"default=abort,enum=abort|hold"`
	// Bake is the minimum duration of the stage: until then it does not pass, however many answers there are. Default: none.
	Bake Duration `json:"bake,omitempty"`
	// Queries are asked of the environment's Prometheus when the stage could pass otherwise, and all their conditions must be true.
	Queries []StageQuery `json:"queries,omitempty"`
	// Checks are bool CEL expressions over delta.* (delta.agreement, delta.max_abs), candidate.* and stable.* (requests, errors,
	// error_rate, client_errors, loss, p50_ms, p99_ms, crashes; of answers that are streamed with `protocol: openai` also first_token_p50_ms, first_token_p99_ms
	// and tokens_per_s); all must be true for the stage to pass.
	Checks []Expr `json:"checks,omitempty" dsl:"bool"`
}

// StageQuery is a condition on the answer of Prometheus.
type StageQuery struct {
	// Query is a PromQL query that returns one number. In it, $candidate, $stable and $target stand for the releases and the target.
	Query string `json:"query"`
	// Condition is a bool CEL expression over `value`, the answer. Without an answer the stage waits.
	Condition Expr `json:"condition" dsl:"bool"`
}

// evidencePrior is how many errors the prior of the error test is worth.
const evidencePrior = 20

// LeastErrors is how many errors of a candidate with a share of the traffic the error test needs to find that it is worse than a release
// without errors, with evidence (its logarithm) from earlier stages. With fewer requests the test can find nothing.
func LeastErrors(share, alpha, evidence float64) int64 {
	n := int64(0)
	for ; share < 1 && evidence < -math.Log(alpha); n++ {
		evidence += math.Log((evidencePrior*share + float64(n)) / ((evidencePrior + float64(n)) * share))
	}
	return n
}

// Check says what is wrong with stages whose values are known only now, because expressions gave them.
func (r *Rollout) Check() error {
	var weight Share
	for i, s := range r.Stages {
		switch at := fmt.Sprintf("stages[%d]", i); {
		case (s.Shadow > 0) == (s.Weight > 0), s.Shadow < 0, s.Weight < 0:
			return fmt.Errorf("%s: a stage has exactly one of `shadow` and `weight`, above 0%%", at)
		case s.Shadow > 1 || s.Weight > 1:
			return fmt.Errorf("%s: %s is more than 100%%: a share is a number from 0 to 1", at, max(s.Shadow, s.Weight))
		case s.Shadow > 0 && weight > 0:
			return fmt.Errorf("%s: a shadow stage must come before the stages with a weight", at)
		case s.Weight > 0 && s.Weight <= weight:
			return fmt.Errorf("%s: the weight %s is not greater than the %s before it", at, s.Weight, weight)
		case s.Bake > s.MaxWait && s.MaxWait > 0:
			return fmt.Errorf("%s: `bake: %s` is longer than `max_wait: %s`", at, s.Bake, s.MaxWait)
		}
		weight = max(weight, s.Weight)
	}
	if weight != 1 {
		return errors.New("stages: the last stage must have the weight 100%")
	}
	return nil
}

// Tests are the sequential tests of a rollout. They stay valid at every look.
type Tests struct {
	// Errors compares the error rates of candidate and stable release.
	Errors ErrorTest `json:"errors,omitzero"`
	// Latency compares the latencies of candidate and stable release.
	Latency LatencyTest `json:"latency,omitzero"`
	// Loss compares how far the answers of candidate and stable release are from their labels, for `rule: tolerance` of `compare`. With it, a
	// stage's `min_samples` are answers with a label.
	Loss *LossTest `json:"loss,omitempty"`
}

// ErrorTest compares error rates of candidate and stable by an anytime-valid e-process.
type ErrorTest struct {
	// Alpha is the maximum probability that an equally good candidate is ever rolled back. Default 0.01.
	Alpha float64 `json:"alpha,omitempty" dsl:"default=0.01,min=0.000001,max=0.5"`
	// MaxRate is the share of wrong answers to labelled requests, or of failed requests, above which a release is rolled back if the stage has
	// no other release to compare it with, as with the first release of a target or a release with all the traffic, or if the stable release
	// has too many wrong answers, too. Default 0.5.
	MaxRate float64 `json:"max_rate,omitempty" dsl:"default=0.5,min=0.000001,max=1"`
}

// LossTest compares the mean losses of candidate and stable release by a time-uniform test. A loss is the absolute difference of an answer and
// its label, in units of the label.
type LossTest struct {
	// Bound is the largest loss that counts: an answer that is further off counts as this far off. About ten times the usual difference is
	// right; a much larger bound makes the test need more answers.
	Bound float64 `json:"bound" dsl:"min=0.000000001"`
	// Margin is by how much the candidate's mean loss may exceed that of the stable release; it is less than `bound`. Default 0.
	Margin float64 `json:"margin,omitempty" dsl:"min=0"`
	// Alpha is the maximum probability that a candidate within the margin is ever rolled back. Default 0.01.
	Alpha float64 `json:"alpha,omitempty" dsl:"default=0.01,min=0.000001,max=0.5"`
	// MaxMean is the mean loss above which a release is rolled back if the stage has no other release to compare it with, as with the first
	// release of a target or a release with all the traffic; it is less than `bound`. Default: half of `bound`.
	MaxMean float64 `json:"max_mean,omitempty" dsl:"min=0"`
}

// LatencyTest compares a latency quantile of candidate and stable by time-uniform bands.
type LatencyTest struct {
	// Quantile, such as 0.99. Zero: no latency test.
	Quantile float64 `json:"quantile,omitempty" dsl:"min=0,max=0.9999"`
	// Of what: the whole answer (default); or, of answers that are streamed with `protocol: openai`, the time to the first token
	// (first_token), or the average time of each token after it (token).
	Of string `json:"of,omitempty" dsl:"enum=answer|first_token|token"`
	// Ratio is the maximum ratio of the candidate's quantile to that of the stable release. Default 1.2.
	Ratio float64 `json:"ratio,omitempty" dsl:"default=1.2,min=1"`
	// Alpha is the same probability for latency. Default 0.01.
	Alpha float64 `json:"alpha,omitempty" dsl:"default=0.01,min=0.000001,max=0.5"`
}

// RolloutOutput is what a rollout step hands on. A rolled-back rollout fails its step with the same facts in its record.
type RolloutOutput struct {
	Target string `json:"target"`
	// Version is the candidate's version at the target.
	Version string `json:"version"`
	// Previous is the version that served before; empty for the first.
	Previous string `json:"previous"`
	// Decision: promoted or rolled_back.
	Decision string `json:"decision" dsl:"enum=promoted|rolled_back"`
	// Reason is one line for people.
	Reason string        `json:"reason"`
	Stages []StageResult `json:"stages"`
	URL    string        `json:"url"`
}

// Synthetic reports whether the rollout was decided by replayed rows, or by some among requests of users.
func (out RolloutOutput) Synthetic() bool {
	for _, stage := range out.Stages {
		for _, look := range stage.Looks {
			if look.Synthetic {
				return true
			}
		}
	}
	return false
}

// StageResult is how one stage went.
type StageResult struct {
	Index    int     `json:"index"`
	Shadow   Share   `json:"shadow,omitempty"`
	Weight   Share   `json:"weight,omitempty"`
	Decision string  `json:"decision" dsl:"enum=pass|abort"`
	Reason   string  `json:"reason,omitempty"`
	Seconds  float64 `json:"seconds"`
	Looks    []Look  `json:"looks"`
}

// Look is one judgement of a stage, over counts since the rollout's epoch began.
type Look struct {
	At        float64    `json:"at"` // seconds since the stage began
	Candidate SideCounts `json:"candidate"`
	Stable    SideCounts `json:"stable"`
	Delta     Delta      `json:"delta"`
	// Samples are what the stage compares with its `min_samples`, and Counted says what they are, such as "keys answered by the candidate".
	Samples int64  `json:"samples,omitempty"`
	Counted string `json:"counted,omitempty"`
	// Needed is how many samples the stage passes with, which is more than its `min_samples` where fewer could show nothing.
	Needed int64 `json:"needed,omitempty"`
	// EValue of the error test; the rollout is aborted at 1/alpha.
	EValue float64 `json:"e_value"`
	// Alpha of the error test: how often a candidate that is as good may be aborted.
	Alpha    float64 `json:"alpha,omitempty"`
	Decision string  `json:"decision" dsl:"enum=hold|pass|abort"`
	Reason   string  `json:"reason,omitempty"`
	// Synthetic says that the rollout replays rows of a dataset: these requests, or some of them, are not of users.
	Synthetic bool `json:"synthetic,omitempty"`
	// Latency is what the latency test saw; nil where there is none.
	Latency *LatencyLook `json:"latency,omitempty"`
	// Loss is what the loss test saw; nil where there is none.
	Loss *LossLook `json:"loss,omitempty"`
}

// LossLook is the loss test at a look: the rollout is aborted when EValue is at least 1/Alpha.
type LossLook struct {
	EValue float64 `json:"e_value"`
	Alpha  float64 `json:"alpha"`
	// Samples are the candidate's answers with a label.
	Samples int64 `json:"samples"`
}

// LatencyLook is the latency test at a look: the rollout is aborted when CandidateLowerMS is above Ratio times StableUpperMS.
type LatencyLook struct {
	Quantile float64 `json:"quantile"`
	// Of is LatencyTest's.
	Of    string  `json:"of,omitempty"`
	Ratio float64 `json:"ratio"`
	// CandidateLowerMS is at most the candidate's quantile, and StableUpperMS at least that of the stable release; 0 while nothing is known.
	CandidateLowerMS float64 `json:"candidate_lower_ms"`
	StableUpperMS    float64 `json:"stable_upper_ms"`
}

// SideCounts is what one side of a comparison answered during a stage.
type SideCounts struct {
	Requests  int64   `json:"requests"`
	Errors    int64   `json:"errors"`
	ErrorRate float64 `json:"error_rate"`
	// ClientErrors is how many further requests were refused as their sender's mistake, with a status of 4xx.
	ClientErrors int64 `json:"client_errors,omitempty"`
	// Loss is the mean difference of answer and label, each at most the loss test's bound; nil where there is no such test or no label.
	Loss  *float64 `json:"loss,omitempty"`
	P50MS float64  `json:"p50_ms"`
	P99MS float64  `json:"p99_ms"`
	// FirstTokenP50MS and FirstTokenP99MS are of the time to the first token, and TokensPerSecond of half of the answers at least; of answers
	// that are streamed.
	FirstTokenP50MS float64 `json:"first_token_p50_ms,omitempty"`
	FirstTokenP99MS float64 `json:"first_token_p99_ms,omitempty"`
	TokensPerSecond float64 `json:"tokens_per_s,omitempty"`
	// Crashes is how many gateways stopped reporting, without having ended in order, while they used the release.
	Crashes int64 `json:"crashes,omitempty"`
}

// Values are what is known of a side, by the names of its keys: rates and latencies only of one with requests, a loss only of one with labels,
// and what tells how fast tokens come only of one with tokens.
func (s SideCounts) Values() map[string]float64 {
	values := map[string]float64{
		"requests": float64(s.Requests), "errors": float64(s.Errors), "client_errors": float64(s.ClientErrors), "crashes": float64(s.Crashes),
	}
	if s.Requests > 0 {
		values["error_rate"], values["p50_ms"], values["p99_ms"] = s.ErrorRate, s.P50MS, s.P99MS
	}
	if s.Loss != nil {
		values["loss"] = *s.Loss
	}
	for name, value := range map[string]float64{
		"first_token_p50_ms": s.FirstTokenP50MS, "first_token_p99_ms": s.FirstTokenP99MS, "tokens_per_s": s.TokensPerSecond,
	} {
		if value > 0 {
			values[name] = value
		}
	}
	return values
}

// Delta compares the candidate's shadow answers with the stable ones.
type Delta struct {
	Samples   int64   `json:"samples"`
	Agreement float64 `json:"agreement"`
	MaxAbs    float64 `json:"max_abs"`
}
