package dsl

import (
	"encoding/json"
	"time"
)

// Verdict is what a gate said of a step's outputs.
type Verdict string

// The verdicts. Anything but pass keeps later steps from using the step.
const (
	VerdictPass  Verdict = "pass"
	VerdictFail  Verdict = "fail"
	VerdictError Verdict = "error" // the expression could not be evaluated
)

// Status is where a step is.
type Status string

// The statuses of a step.
const (
	StatusPending   Status = "pending"
	StatusRunning   Status = "running"
	StatusSucceeded Status = "succeeded" // and its gate passed
	StatusFailed    Status = "failed"
	StatusDeclined  Status = "declined" // its gate stopped the run, which is no failure
	StatusSkipped   Status = "skipped"  // by its own `when`
	StatusUpstream  Status = "upstream" // not run: a step it needs did not come to the end it needs
	StatusCanceled  Status = "canceled"
)

// Check is one gate condition with what it saw.
type Check struct {
	Expression string  `json:"expression"`
	Message    string  `json:"message,omitempty"`
	Verdict    Verdict `json:"verdict"`
	OnFail     OnFail  `json:"on_fail,omitempty"`
	// Values are the references in the expression with the value each had, for people: "metrics.f1": 0.97.
	Values map[string]any `json:"values,omitempty"`
	// Error says why the verdict is error.
	Error string `json:"error,omitempty"`
	// Line of the condition in the pipeline file.
	Line int `json:"line,omitempty"`
}

// StepResult is a finished step as expressions see it.
type StepResult struct {
	Status Status `json:"status"`
	// Outputs is a JSON object: the kind's output struct and the declared outputs side by side.
	Outputs json.RawMessage `json:"outputs,omitempty"`
	// Error is set when the step failed.
	Error string `json:"error,omitempty"`
}

// RunFacts are the `run.*` names.
type RunFacts struct {
	ID        string    `json:"id"`
	Attempt   int       `json:"attempt"`
	StartedAt time.Time `json:"started_at"`
	CostUSD   float64   `json:"cost_usd"`
}

// Vars is everything an expression of a pipeline may see.
type Vars struct {
	Params map[string]any
	Steps  map[string]StepResult
	Run    RunFacts
	// Last holds the steps of the pipeline's last accepted run; nil when there is none.
	Last map[string]StepResult
	// Serving holds, by target, the steps of the run behind the release that serves now.
	Serving map[string]map[string]StepResult
}
