package spec

import (
	"encoding/json"
	"reflect"

	"github.com/sluiceml/sluice/internal/fault"
)

// Kind is the kind of a step. A step has exactly one kind key.
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

// Work is what the program sluice does itself in a step that is on a node of a pool, for people; empty where that is a program of the user's.
func (k Kind) Work() string {
	return map[Kind]string{KindClean: "cleaning", KindCompile: "compilation"}[k]
}

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
	// Timeout is how long to wait for a decision. Default 72h.
	Timeout Duration `json:"timeout,omitempty" dsl:"default=72h"`
	// Default is the decision if nobody decides in time: fail (default) or pass.
	Default string `json:"default,omitempty" dsl:"default=fail,enum=fail|pass"`
}

// Gate is one condition over a step's own outputs.
type Gate struct {
	// Check is a CEL expression of type bool over the step's outputs (plain names), params, steps, inputs, run, last and serving.
	Check Expr `json:"check" dsl:"bool"`
	// Message is shown if the check is false, with the values that it saw.
	Message string `json:"message,omitempty"`
	// OnFail: fail (default), stop, or hold, which lets a person decide.
	OnFail OnFail `json:"on_fail,omitempty" dsl:"default=fail,enum=fail|stop|hold"`
	// Hold says who decides, with `on_fail: hold`.
	Hold Hold `json:"hold,omitzero"`
}

// Retry says how often a step is tried again, and after which errors.
type Retry struct {
	// Attempts is the maximum number of attempts, including the first. Default 3.
	Attempts int `json:"attempts,omitempty" dsl:"default=3,min=1,max=100"`
	// Backoff is the delay before the second attempt; it doubles for each further attempt. Default 5s.
	Backoff Duration `json:"backoff,omitempty" dsl:"default=5s"`
	// MaxBackoff is the maximum delay. Default 1m.
	MaxBackoff Duration `json:"max_backoff,omitempty" dsl:"default=1m"`
	// Errors lists the error types that are retried. Default infrastructure.
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
	// MaxAge is the maximum age of reused outputs. Default: no limit.
	MaxAge Duration `json:"max_age,omitempty"`
	// Version is part of the cache key: after a change the step runs again.
	Version string `json:"version,omitempty"`
}

// Matrix runs a step once for each combination of its axes: a list of values by name. `include` and `exclude` are lists of mappings.
type Matrix map[string]any

// Repeat runs a step again and again, each time after the last, until a condition over its outputs holds.
type Repeat struct {
	// Until is a CEL expression of type bool over the step's outputs (plain names), `previous` and `index`.
	Until Expr `json:"until" dsl:"bool"`
	// Max is the maximum number of iterations. The step fails if the condition is still false after the last one. Default 10.
	Max int `json:"max,omitempty" dsl:"literal,default=10,min=1,max=10000"`
}

// Envelope holds the keys that every kind of step may have.
type Envelope struct {
	// Needs names steps to wait for without using their outputs: a list (each `passed`), or a map from step to passed, not_failed, ended or
	// failed.
	Needs map[string]Need `json:"needs,omitempty" dsl:"literal,enum=passed|not_failed|ended|failed"`
	// When is a bool expression, evaluated before the step; false skips it.
	When Expr `json:"when,omitempty" dsl:"bool"`
	// Gate is a list of conditions on the step's outputs; no later step may use the outputs before the gate has passed. The step waits for the steps
	// that its gate reads.
	Gate []Gate `json:"gate,omitempty" dsl:"literal"`
	// Retry is when a failed attempt is retried, and how often.
	Retry Retry `json:"retry,omitzero" dsl:"literal"`
	// Timeout limits one attempt. Default 24h; no limit for `pipeline`, `rollout` and `train`. An approval cannot have it: its timeout is
	// under `approval`.
	Timeout Duration `json:"timeout,omitempty" dsl:"literal"`
	// Cache: true, false, or {max_age, version}. Default true, but false for `run` without outputs, `clean` of files that are not inputs,
	// `rollout`, `approval` and `pipeline` (the child's steps have their own).
	Cache Cache `json:"cache,omitzero" dsl:"literal"`
	// Matrix runs the step once for each combination of values: {arch: [bow, cnn]} is `matrix.arch` in its expressions. `include` adds
	// combinations or keys, `exclude` removes combinations.
	Matrix Matrix `json:"matrix,omitempty"`
	// Foreach is a CEL expression that returns a list; the step runs once for each `item`, with its `index`. An empty list skips the step.
	Foreach Expr `json:"foreach,omitempty"`
	// Repeat runs the step repeatedly until a condition is true; its expressions can read `previous` and `index`.
	Repeat Repeat `json:"repeat,omitzero"`
	// MaxParallel is the maximum number of instances that run at once. Default 64.
	MaxParallel int `json:"max_parallel,omitempty" dsl:"literal,min=1,max=1000"`
	// Require is the share of instances that must pass. Default 100%.
	Require Share `json:"require,omitempty" dsl:"literal"`
	// ContinueOnError lets the run continue if this step fails. Steps that read its outputs are skipped.
	ContinueOnError bool `json:"continue_on_error,omitempty" dsl:"literal"`
	// Secrets adds environment variables to the step's processes. The value is the name of a secret of the environment, or ${params.x} of a
	// secret parameter.
	Secrets map[string]string `json:"secrets,omitempty"`
	// Summary is one line that describes the step in Temporal's UI and in the output of commands.
	Summary string `json:"summary,omitempty"`
	// Env adds environment variables to the step's processes. A name consists of ASCII letters, digits and _.
	Env map[string]string `json:"env,omitempty"`
	// Publish registers datasets and models among the outputs under a name when the gate has passed: {dataset: spam-mail}, or
	// {selected.model: spam}.
	Publish map[string]string `json:"publish,omitempty" dsl:"literal"`
}
