package spec

import (
	"encoding/json"
	"reflect"

	"github.com/sluiceml/sluice/internal/fault"
)

// Kind names what a step does. A step has exactly one kind key.
type Kind string

// The kinds this version runs.
const (
	KindClean    Kind = "clean"
	KindTrain    Kind = "train"
	KindEvaluate Kind = "evaluate"
	KindCompile  Kind = "compile"
	KindRollout  Kind = "rollout"
	KindRun      Kind = "run"
	KindApproval Kind = "approval"
	KindPipeline Kind = "pipeline"
)

// Kinds lists all kinds of steps.
var Kinds = []Kind{KindClean, KindTrain, KindEvaluate, KindCompile, KindRollout, KindRun, KindApproval, KindPipeline}

// Decode reads the JSON of a resolved spec, into its struct or a map of its keys. A key that S lacks is passed over: histories and records
// hold specs that other versions resolved.
func Decode[S any](resolved json.RawMessage) (s S, err error) {
	if err := json.Unmarshal(resolved, &s); err != nil {
		return s, fault.New(fault.Invalid, "the resolved spec cannot be read", err)
	}
	return s, nil
}

// Need says what a step asks of an earlier one before it may start.
type Need string

// The four needs. A reference means NeedPassed.
const (
	NeedPassed    Need = "passed"     // the step succeeded and its gate passed
	NeedNotFailed Need = "not_failed" // passed, or skipped by its own `when`; never after an upstream failure
	NeedEnded     Need = "ended"      // whatever its end
	NeedFailed    Need = "failed"     // the step or its gate failed
)

// OnFail says what a gate that does not hold does to the run.
type OnFail string

// What a gate may do when it does not hold.
const (
	OnFailFail OnFail = "fail" // the step is failed, the run red
	OnFailStop OnFail = "stop" // the run ends green as `declined`
	OnFailHold OnFail = "hold" // the step waits for a person
)

// Hold says who decides when a gate with `on_fail: hold` does not hold.
type Hold struct {
	// Who may decide: names of `people` in the environment, or user:NAME. Default: anyone.
	Who []string `json:"who,omitempty"`
	// Timeout is how long they have. Default 72h.
	Timeout Duration `json:"timeout,omitempty" dsl:"default=72h"`
	// Default is what happens when nobody decided in time: fail (default) or pass.
	Default string `json:"default,omitempty" dsl:"default=fail,enum=fail|pass"`
}

// Gate is one condition over a step's own outputs.
type Gate struct {
	// Check is a CEL expression of type bool over the step's outputs (plain names), params, steps, inputs, run, last and serving.
	Check Expr `json:"check" dsl:"bool"`
	// Message is shown when the check does not hold, beside the values that it saw.
	Message string `json:"message,omitempty"`
	// OnFail: fail (default), stop, or hold, which lets a person decide.
	OnFail OnFail `json:"on_fail,omitempty" dsl:"default=fail,enum=fail|stop|hold"`
	// Hold says who decides; with `on_fail: hold`.
	Hold Hold `json:"hold,omitzero"`
}

// Retry says how often a step is tried again, and after which errors.
type Retry struct {
	// Attempts counts the first try. Default 3.
	Attempts int `json:"attempts,omitempty" dsl:"default=3,min=1,max=100"`
	// Backoff is the pause before the second try; it doubles. Default 5s.
	Backoff Duration `json:"backoff,omitempty" dsl:"default=5s"`
	// MaxBackoff bounds the pause. Default 1m.
	MaxBackoff Duration `json:"max_backoff,omitempty" dsl:"default=1m"`
	// Errors lists the error types that are tried again. Default infrastructure.
	Errors []string `json:"errors,omitempty" dsl:"enum=user|infrastructure|timeout"`
}

// WithDefaults returns r with what it leaves out filled in.
func (r Retry) WithDefaults() Retry {
	SetDefaults(reflect.ValueOf(&r))
	r.MaxBackoff = max(r.MaxBackoff, r.Backoff)
	if len(r.Errors) == 0 {
		r.Errors = []string{"infrastructure"}
	}
	return r
}

// Cache says whether a step may take the outputs of an earlier run instead of running: true, false, or an object.
type Cache struct {
	// Enabled is what `true` and `false` set.
	Enabled bool `json:"enabled" dsl:"-"`
	// MaxAge is how old the outputs may be. Default: any age.
	MaxAge Duration `json:"max_age,omitempty"`
	// Version is part of the key: another one runs the step again.
	Version string `json:"version,omitempty"`
}

// Matrix runs a step once for each combination of its axes: a list of values by name. `include` and `exclude` are lists of mappings.
type Matrix map[string]any

// Repeat runs a step again and again, each time after the last, until a condition over its outputs holds.
type Repeat struct {
	// Until is a CEL expression of type bool over the step's outputs (plain names), `previous` and `index`.
	Until Expr `json:"until" dsl:"bool"`
	// Max is how often at most. The step fails when the condition does not hold then. Default 10.
	Max int `json:"max,omitempty" dsl:"literal,default=10,min=1,max=10000"`
}

// Envelope holds the keys every kind of step may have.
type Envelope struct {
	// Needs orders steps without passing data: a list (each `passed`) or a map from step to passed, not_failed, ended or failed.
	Needs map[string]Need `json:"needs,omitempty" dsl:"literal,enum=passed|not_failed|ended|failed"`
	// When is a bool expression, evaluated before the step; false skips it.
	When Expr `json:"when,omitempty" dsl:"bool"`
	// Gate judges the step's outputs; no later step may use them before it passed. The step waits for the steps that it reads.
	Gate []Gate `json:"gate,omitempty" dsl:"literal"`
	// Retry is the step's own budget of attempts.
	Retry Retry `json:"retry,omitzero" dsl:"literal"`
	// Timeout bounds one attempt. Default 24h; none for `pipeline`, `rollout` and `train`. An approval takes none: it has its own, under `approval`.
	Timeout Duration `json:"timeout,omitempty" dsl:"literal"`
	// Cache: true, false, or {max_age, version}. Default true, but false for `run` without outputs, `clean` of files that are no inputs, `rollout`, `approval` and `pipeline`, whose own steps have theirs.
	Cache Cache `json:"cache,omitzero" dsl:"literal"`
	// Matrix runs the step once for each combination of values: {arch: [bow, cnn]} is `matrix.arch` in its expressions. `include` adds
	// combinations or keys, `exclude` takes combinations away.
	Matrix Matrix `json:"matrix,omitempty"`
	// Foreach is a CEL expression of a list; the step runs once for each `item`, with its `index`. An empty list skips the step.
	Foreach Expr `json:"foreach,omitempty"`
	// Repeat runs the step again until a condition holds; its expressions see `previous` and `index`.
	Repeat Repeat `json:"repeat,omitzero"`
	// MaxParallel bounds how many instances run at a time. Default 64.
	MaxParallel int `json:"max_parallel,omitempty" dsl:"literal,min=1,max=1000"`
	// Require is the share of instances that must pass. Default 100%.
	Require Share `json:"require,omitempty" dsl:"literal"`
	// ContinueOnError keeps the run from failing with this step. Steps that read its outputs are skipped all the same.
	ContinueOnError bool `json:"continue_on_error,omitempty" dsl:"literal"`
	// Secrets adds environment variables to the step's processes, each with the name of a secret of the environment, or ${params.x}
	// of a secret parameter.
	Secrets map[string]string `json:"secrets,omitempty"`
	// Summary is one line about the step, shown where the step is shown.
	Summary string `json:"summary,omitempty"`
	// Env adds environment variables to the step's processes.
	Env map[string]string `json:"env,omitempty"`
	// Publish registers an output under a name once the gate has passed: {dataset: spam-mail}.
	Publish map[string]string `json:"publish,omitempty" dsl:"literal,names"`
}
