package spec

import (
	"cmp"
	"encoding/json"
	"time"

	"github.com/sluiceml/sluice/internal/artifact"
)

// Verdict is what a gate said of a step's outputs.
type Verdict string

// The verdicts. Anything but pass keeps later steps from using the step.
const (
	VerdictPass  Verdict = "pass"
	VerdictFail  Verdict = "fail"
	VerdictError Verdict = "error" // the expression could not be evaluated
	VerdictHold  Verdict = "hold"  // a person decides
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
	StatusSkipped   Status = "skipped"  // by its own `when`, or turned away by a concurrency group
	StatusUpstream  Status = "upstream" // not run: a step it needs did not come to the end it needs
	StatusCanceled  Status = "canceled"
	StatusHold      Status = "hold" // waits for a person
)

// Check is one gate condition with what it saw.
type Check struct {
	Expression string  `json:"expression"`
	Message    string  `json:"message,omitempty"`
	Verdict    Verdict `json:"verdict"`
	OnFail     OnFail  `json:"on_fail,omitempty"`
	// Hold is set when OnFail is hold.
	Hold *Hold `json:"hold,omitempty"`
	// Values are the references in the expression with the value each had, for people: "metrics.f1": 0.97.
	Values Values `json:"values,omitempty"`
	// Error says why the verdict is error.
	Error string `json:"error,omitempty"`
	// Line of the condition in the pipeline file.
	Line int `json:"line,omitempty"`
}

// StepResult is a finished step as expressions see it.
type StepResult struct {
	Status Status `json:"status"`
	// Outputs is a JSON object: the kind's output struct and the declared outputs side by side. Of a step with a matrix or a foreach it
	// is an array: the outputs of each instance that passed, with its "index" and its "matrix" or "item".
	Outputs json.RawMessage `json:"outputs,omitempty"`
	// Error is set when the step failed.
	Error string `json:"error,omitempty"`
	// Digest stands for the result in the keys of steps that need it.
	Digest string `json:"-"`
}

// Instance is one of a fanned-out step's.
type Instance struct {
	// Index counts from 0.
	Index int `json:"index"`
	// Matrix is an object of the axes.
	Matrix json.RawMessage `json:"matrix,omitempty"`
	// Item of a foreach.
	Item json.RawMessage `json:"item,omitempty"`
	// Previous holds the outputs of the iteration before, of a repeat; absent at the first.
	Previous json.RawMessage `json:"previous,omitempty"`
}

// TriggerFacts are the `run.trigger.*` names.
type TriggerFacts struct {
	Name string `json:"name,omitempty"`
	// Kind is schedule, data, metric or pipeline.
	Kind string    `json:"kind,omitempty"`
	Time time.Time `json:"time,omitzero"`
	// Files are what a data trigger found.
	Files []string `json:"files,omitempty"`
	// Value is what a metric trigger measured.
	Value float64 `json:"value,omitempty"`
}

// FailedStep is one of `run.failed`.
type FailedStep struct {
	Step  string `json:"step"`
	Error string `json:"error"`
	// Type of the error.
	Type string `json:"type" dsl:"enum=invalid|user|infrastructure|preempted|timeout|gate|budget|canceled"`
}

// RunFacts are the `run.*` names.
type RunFacts struct {
	ID        string    `json:"id"`
	StartedAt time.Time `json:"started_at"`
	// ScheduledAt is when a schedule meant the run to start; zero when none started it.
	ScheduledAt time.Time `json:"scheduled_at,omitzero"`
	CostUSD     float64   `json:"cost_usd"`
	// CostUnknown: of a part of it nobody knows the price. run.cost.usd has no value then.
	CostUnknown bool         `json:"cost_unknown,omitempty"`
	Trigger     TriggerFacts `json:"trigger,omitzero"`
	// Status and Failed are how the main steps went; in on_failure and finally only.
	Status Status       `json:"status,omitempty"`
	Failed []FailedStep `json:"failed,omitempty"`
}

// Vars is everything an expression of a pipeline may see.
type Vars struct {
	Params map[string]any
	// Steps are the ends of the run's own steps. An expression that reads one that is not among them cannot be evaluated.
	Steps map[string]StepResult
	Run   RunFacts
	// Last holds the steps of the pipeline's last accepted run; nil when there is none.
	Last map[string]StepResult
	// Serving holds, by target, the steps of the run behind the release that serves now.
	Serving map[string]map[string]StepResult
	// Instance is set for one of a fanned-out step's.
	Instance *Instance
	// Datasets and Models are the newest published versions by name.
	Datasets, Models map[string]artifact.Ref
}

// TriggerManual is run.trigger.kind of a run that a person or a program started.
const TriggerManual = "manual"

// Complete fills in what a run that nothing triggered has instead.
func (r RunFacts) Complete() RunFacts {
	r.Trigger.Kind = cmp.Or(r.Trigger.Kind, TriggerManual)
	for _, at := range []*time.Time{&r.ScheduledAt, &r.Trigger.Time} {
		if at.IsZero() {
			*at = r.StartedAt
		}
	}
	return r
}
