package dsl

import "github.com/sluiceml/sluice/store/artifact"

// Rollout moves a target's traffic to a model stage by stage, and back at once when a test says so.
type Rollout struct {
	// Target is where the model is served, by name in the environment. It is also the model's name in the inference protocol.
	Target string `json:"target"`
	// Model is the model to release.
	Model artifact.Ref `json:"model"`
	// Traffic replays a dataset split through the target while the rollout lasts.
	Traffic Traffic `json:"traffic,omitempty"`
	// Stages in order; the last must be weight 100%.
	Stages []Stage `json:"stages"`
	// Tests are the sequential tests made at every look of every stage.
	Tests Tests `json:"tests,omitempty"`
	// Ungated must be true in a pipeline whose rollout waits for no gate.
	Ungated bool `json:"ungated,omitempty"`
}

// Kind implements Spec.
func (*Rollout) Kind() Kind { return KindRollout }

// Traffic replays labelled rows as requests.
type Traffic struct {
	Replay artifact.Ref `json:"replay,omitempty"`
	// Split of the dataset. Default test.
	Split string `json:"split,omitempty"`
	// RPS is requests per second. Default 50.
	RPS float64 `json:"rps,omitempty"`
	// Label is the column holding the right answer; a wrong answer counts as an error.
	Label string `json:"label,omitempty"`
}

// Stage is one step of a rollout: exactly one of Shadow and Weight.
type Stage struct {
	// Shadow mirrors this share of requests to the candidate; users see the stable answers.
	Shadow Share `json:"shadow,omitempty"`
	// Weight is the candidate's share of traffic.
	Weight Share `json:"weight,omitempty"`
	// MinSamples is how many candidate answers the stage needs before it may pass. Default 100.
	MinSamples int64 `json:"min_samples,omitempty"`
	// MaxWait bounds the stage. Default 15m.
	MaxWait Duration `json:"max_wait,omitempty"`
	// OnNoData is what happens at MaxWait without MinSamples: abort (default) or hold, which waits on.
	OnNoData string `json:"on_no_data,omitempty"`
	// Checks are bool CEL expressions over delta.* (delta.agreement, delta.max_abs), candidate.* and stable.*
	// (requests, errors, error_rate, p50_ms, p99_ms); each must hold for the stage to pass.
	Checks []Expr `json:"checks,omitempty"`
}

// Tests are the sequential tests of a rollout. They stay valid at every look.
type Tests struct {
	Errors  ErrorTest   `json:"errors,omitempty"`
	Latency LatencyTest `json:"latency,omitempty"`
}

// ErrorTest compares error rates of candidate and stable by an anytime-valid e-process.
type ErrorTest struct {
	// Alpha bounds the chance that an equal candidate is ever rolled back. Default 0.01.
	Alpha float64 `json:"alpha,omitempty"`
}

// LatencyTest compares a latency quantile of candidate and stable by time-uniform bands.
type LatencyTest struct {
	// Quantile, such as 0.99. Zero: no latency test.
	Quantile float64 `json:"quantile,omitempty"`
	// Ratio the candidate's quantile may be of the stable one's.
	Ratio float64 `json:"ratio,omitempty"`
	// Alpha as in ErrorTest. Default 0.01.
	Alpha float64 `json:"alpha,omitempty"`
}

// RolloutOutput is what a rollout step hands on. A rolled-back rollout fails its step with the same facts in its record.
type RolloutOutput struct {
	Target string `json:"target"`
	// Version is the candidate's version at the target.
	Version string `json:"version"`
	// Previous is the version that served before; empty for the first.
	Previous string `json:"previous"`
	// Decision: promoted or rolled_back.
	Decision string `json:"decision"`
	// Reason is one line for people.
	Reason string        `json:"reason"`
	Stages []StageResult `json:"stages"`
	URL    string        `json:"url"`
}

// StageResult is how one stage went.
type StageResult struct {
	Index    int     `json:"index"`
	Shadow   Share   `json:"shadow,omitempty"`
	Weight   Share   `json:"weight,omitempty"`
	Decision string  `json:"decision"` // pass, abort
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
	// EValue of the error test; the rollout is aborted at 1/alpha.
	EValue   float64 `json:"e_value"`
	Decision string  `json:"decision"` // hold, pass, abort
	Reason   string  `json:"reason,omitempty"`
}

// SideCounts is what one side of a comparison answered during a stage.
type SideCounts struct {
	Requests  int64   `json:"requests"`
	Errors    int64   `json:"errors"`
	ErrorRate float64 `json:"error_rate"`
	P50MS     float64 `json:"p50_ms"`
	P99MS     float64 `json:"p99_ms"`
}

// Delta compares the candidate's shadow answers with the stable ones.
type Delta struct {
	Samples   int64   `json:"samples"`
	Agreement float64 `json:"agreement"`
	MaxAbs    float64 `json:"max_abs"`
}
