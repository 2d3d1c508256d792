package dsl

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
)

// Spec is the resolved body under a step's kind key.
type Spec interface {
	Kind() Kind
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
)

// Gate is one condition over a step's own outputs.
type Gate struct {
	// Check is a CEL expression of type bool over the step's outputs (plain names), params, steps, inputs, run, last and serving.
	Check Expr `json:"check" dsl:"bool"`
	// Message is shown when the check does not hold.
	Message string `json:"message,omitempty" dsl:"raw"`
	// OnFail: fail (default) or stop.
	OnFail OnFail `json:"on_fail,omitempty" dsl:"default=fail,enum=fail|stop,later=hold"`
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

// Envelope holds the keys every kind of step may have.
type Envelope struct {
	// Needs orders steps without passing data: a list (each `passed`) or a map from step to passed, not_failed, ended or failed.
	Needs map[string]Need `json:"needs,omitempty" dsl:"literal,enum=passed|not_failed|ended|failed"`
	// When is a bool expression, evaluated before the step; false skips it.
	When Expr `json:"when,omitempty" dsl:"bool"`
	// Gate judges the step's outputs; no later step may use them before it passed.
	Gate []Gate `json:"gate,omitempty" dsl:"literal"`
	// Retry is the step's own budget of attempts.
	Retry Retry `json:"retry,omitzero" dsl:"literal"`
	// Timeout bounds one attempt.
	Timeout Duration `json:"timeout,omitempty" dsl:"literal"`
	// Env adds environment variables to the step's processes.
	Env map[string]string `json:"env,omitempty"`
	// Publish registers an output under a name once the gate has passed: {dataset: spam-mail}.
	Publish map[string]string `json:"publish,omitempty" dsl:"literal,names"`
}
