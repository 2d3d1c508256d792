// Package contract holds what workflows and activities say to each other: names, inputs, outputs and error types. It has no
// behaviour, so that both sides and the node agent can import it.
package contract

import (
	"encoding/json"
	"strconv"
	"time"

	"github.com/sluiceml/sluice/dsl"
	"github.com/sluiceml/sluice/store/artifact"
)

// TaskQueue is the queue that every Sluice worker polls.
const TaskQueue = "sluice"

// Workflow types.
const (
	PipelineWorkflow = "sluice.pipeline"
	TrainWorkflow    = "sluice.train"
	RolloutWorkflow  = "sluice.rollout"
)

// Activity types of the engine. Begin, Resolve, Judge and Finish run as local activities.
const (
	BeginActivity   = "sluice.begin"
	ResolveActivity = "sluice.resolve"
	JudgeActivity   = "sluice.judge"
	FinishActivity  = "sluice.finish"
)

// Activity types of the kinds whose effect is one activity.
const (
	CleanActivity    = "sluice.clean"
	EvaluateActivity = "sluice.evaluate"
	CompileActivity  = "sluice.compile"
	RunActivity      = "sluice.run"
)

// Typed search attributes.
const (
	SearchPipeline = "SluicePipeline" // Keyword
	SearchStep     = "SluiceStep"     // Keyword
	SearchVerdict  = "SluiceVerdict"  // Keyword
	SearchModel    = "SluiceModel"    // Keyword
	SearchDataset  = "SluiceDataset"  // Keyword
)

// RunWorkflowID is the workflow ID of a run. RunOf is its inverse.
func RunWorkflowID(run string) string { return runPrefix + extended(run) }

// ActivityID is the ID of a step's activity, by which its progress is found among those of a run.
func ActivityID(step string, attempt int) string { return step + "/" + strconv.Itoa(attempt) }

// TrainWorkflowID is the workflow ID of a training step.
func TrainWorkflowID(run, step string) string { return "train/" + run + "/" + step }

// RolloutWorkflowID is the workflow ID of a rollout: one at a time per target.
func RolloutWorkflowID(target string) string { return "rollout/" + target }

// Submission is what was submitted, whole: nothing is read from the submitter's disk later. It lives in the store by digest.
type Submission struct {
	// File and EnvFile are the names of the submitter's files, for messages.
	File        string `json:"file"`
	Pipeline    []byte `json:"pipeline"`
	EnvFile     string `json:"env_file"`
	Environment []byte `json:"environment,omitempty"`
	// Params are the values given, before defaults.
	Params    map[string]string `json:"params,omitempty"`
	Workspace artifact.Ref      `json:"workspace"`
}

// RunInput starts a pipeline workflow.
type RunInput struct {
	Run        string `json:"run"`
	Name       string `json:"name"`
	Submission string `json:"submission"` // digest
	// Graph in topological order.
	Graph []dsl.Node `json:"graph"`
	// Reuse names steps whose results are taken from run ReuseFrom as they are.
	ReuseFrom string   `json:"reuse_from,omitempty"`
	Reuse     []string `json:"reuse,omitempty"`
	// Trigger is what started the run, when nobody did by hand.
	Trigger dsl.TriggerFacts `json:"trigger,omitzero"`
}

// RunOutput is a pipeline workflow's result.
type RunOutput struct {
	Status dsl.Status `json:"status"`
	// Error is the first failure, for people; ErrorType its type.
	Error     string `json:"error,omitempty"`
	ErrorType string `json:"error_type,omitempty"`
}

// BeginInput opens the run's record.
type BeginInput struct {
	RunInput
	StartedAt time.Time `json:"started_at"`
}

// ResolveInput asks what a step is to do now.
type ResolveInput struct {
	Run        string    `json:"run"`
	Submission string    `json:"submission"`
	Step       string    `json:"step"`
	StartedAt  time.Time `json:"started_at"` // of the run
	Now        time.Time `json:"now"`        // of the step, by the workflow's clock
}

// Resolved is what a step is to do.
type Resolved struct {
	// Skip: the step's `when` was false.
	Skip bool `json:"skip,omitempty"`
	// Step is the input of the step's activity or child.
	Step StepInput `json:"step"`
}

// StepInput is what the activity or child workflow of a step is given.
type StepInput struct {
	Run  string   `json:"run"`
	Step string   `json:"step"`
	Kind dsl.Kind `json:"kind"`
	// Spec is the resolved spec of the kind, inline, or by digest when it is large.
	Spec    json.RawMessage   `json:"spec,omitempty"`
	SpecRef string            `json:"spec_ref,omitempty"`
	Env     map[string]string `json:"env,omitempty"`
	// Secrets are variables with the names of the secrets they take; values never travel.
	Secrets   map[string]string `json:"secrets,omitempty"`
	Workspace artifact.Ref      `json:"workspace"`
	// Submission names the environment the step's pools and targets are looked up in.
	Submission string `json:"submission"`
}

// StepOutput is what it returns: the outputs object, inline or by digest when above 4 KB.
type StepOutput struct {
	Outputs    json.RawMessage `json:"outputs,omitempty"`
	OutputsRef string          `json:"outputs_ref,omitempty"`
}

// Attempt is one try of a step that did not succeed.
type Attempt struct {
	StartedAt time.Time `json:"started_at"`
	EndedAt   time.Time `json:"ended_at"`
	ErrorType string    `json:"error_type"`
	Error     string    `json:"error"`
}

// JudgeInput ends a step: it judges the gate, writes the step's record and publishes.
type JudgeInput struct {
	ResolveInput
	Kind dsl.Kind `json:"kind"`
	// Status is succeeded, failed, canceled, skipped or upstream, before the gate.
	Status    dsl.Status `json:"status"`
	Output    StepOutput `json:"output"`
	Error     string     `json:"error,omitempty"`
	ErrorType string     `json:"error_type,omitempty"`
	Attempts  []Attempt  `json:"attempts,omitempty"`
	EndedAt   time.Time  `json:"ended_at"`
	// ReuseFrom is the run whose record of this step is taken as it is.
	ReuseFrom string `json:"reuse_from,omitempty"`
}

// Judged is the step's final word.
type Judged struct {
	Status    dsl.Status `json:"status"`
	Error     string     `json:"error,omitempty"`
	ErrorType string     `json:"error_type,omitempty"`
	// Summary is one line for people: the verdict with the values it saw.
	Summary string `json:"summary,omitempty"`
	// Checks that were made, for history.
	Checks []dsl.Check `json:"checks,omitempty"`
}

// FinishInput closes the run's record.
type FinishInput struct {
	Run        string    `json:"run"`
	Submission string    `json:"submission"`
	StartedAt  time.Time `json:"started_at"`
	EndedAt    time.Time `json:"ended_at"`
	RunOutput
}

// RunRecord is runs/<run>/run.json.
type RunRecord struct {
	Run        string         `json:"run"`
	Pipeline   string         `json:"pipeline"`
	Submission string         `json:"submission"`
	Status     dsl.Status     `json:"status"`
	Error      string         `json:"error,omitempty"`
	ErrorType  string         `json:"error_type,omitempty"`
	StartedAt  time.Time      `json:"started_at"`
	EndedAt    time.Time      `json:"ended_at,omitzero"`
	Params     map[string]any `json:"params,omitempty"`
	Graph      []dsl.Node     `json:"graph"`
	Outputs    map[string]any `json:"outputs,omitempty"`
	ReuseFrom  string         `json:"reuse_from,omitempty"`
	// Last and Serving are the runs that `last` and `serving.<target>` meant, read once at the start.
	Last    string            `json:"last,omitempty"`
	Serving map[string]string `json:"serving,omitempty"`
}

// StepRecord is runs/<run>/steps/<step>.json.
type StepRecord struct {
	Step      string          `json:"step"`
	Kind      dsl.Kind        `json:"kind"`
	Status    dsl.Status      `json:"status"`
	Error     string          `json:"error,omitempty"`
	ErrorType string          `json:"error_type,omitempty"`
	StartedAt time.Time       `json:"started_at,omitzero"`
	EndedAt   time.Time       `json:"ended_at,omitzero"`
	Outputs   json.RawMessage `json:"outputs,omitempty"`
	Verdict   dsl.Verdict     `json:"verdict,omitempty"`
	Checks    []dsl.Check     `json:"checks,omitempty"`
	Attempts  []Attempt       `json:"attempts,omitempty"`
	Published []string        `json:"published,omitempty"`
	// ReusedFrom is the run whose result was taken as it is.
	ReusedFrom string `json:"reused_from,omitempty"`
}
