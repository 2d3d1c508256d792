package record

import (
	"encoding/json"
	"strconv"
	"strings"
	"time"

	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/artifact"
)

// Submission is what was submitted, whole: nothing is read from the submitter's disk later. It lives in the store by digest.
type Submission struct {
	// File and EnvFile are the names of the submitter's files in the workspace, for messages and for what no step depends on. An
	// environment outside it is ../NAME.
	File     string `json:"file"`
	Pipeline []byte `json:"pipeline"`
	// Inline: the pipeline is written within that of a parent, and File is only what it is called.
	Inline      bool   `json:"inline,omitempty"`
	EnvFile     string `json:"env_file"`
	Environment []byte `json:"environment,omitempty"`
	// Params are the values given, before defaults.
	Params map[string]string `json:"params,omitempty"`
	// Values are what a parent run gives in place of Params.
	Values spec.Values `json:"values,omitempty"`
	// Parents are the names of the documents of parent runs. Like File and EnvFile they lie in the workspace, and no step depends on them
	// as on a file.
	Parents   []string     `json:"parents,omitempty"`
	Workspace artifact.Ref `json:"workspace"`
	// Python is the virtual environment that was beside the pipeline on the submitter's machine, an absolute path; empty where there was
	// none, and for a cluster, whose workers are elsewhere.
	Python string `json:"python,omitempty"`
}

// Reuse says which results of earlier runs a run may take over.
type Reuse struct {
	// From is the run whose finished steps are taken over as they are, when what they would do has not changed since.
	From string `json:"from,omitempty"`
	// Again names steps that are done whatever there is to take over.
	Again []string `json:"again,omitempty"`
	// Only, when not empty, names the steps that are done; the others must be there to take over, or are skipped.
	Only []string `json:"only,omitempty"`
	// Needed are steps left out by Only that those in it wait for: a run without their results would do nothing.
	Needed []string `json:"needed,omitempty"`
	// NoCache turns the step cache off.
	NoCache bool `json:"no_cache,omitempty"`
}

// RunOutput is a pipeline workflow's result.
type RunOutput struct {
	Status spec.Status `json:"status"`
	// Error is the first failure, for people; ErrorType its type.
	Error     string `json:"error,omitempty"`
	ErrorType string `json:"error_type,omitempty"`
	// Outputs are the pipeline's, and CostUSD what it cost: for the step of a parent run.
	Outputs StepOutput `json:"outputs,omitzero"`
	CostUSD float64    `json:"cost_usd,omitempty"`
	// CostUnknown: of a part of it nobody knows the price, and CostUSD is without that.
	CostUnknown bool `json:"cost_unknown,omitempty"`
}

// StepRef names what a local activity of the engine is about: a step of a run, or an instance of one.
type StepRef struct {
	Run        string `json:"run,omitempty"`
	Submission string `json:"submission,omitempty"`
	Step       string `json:"step"`
	// Instance is set for one of a fanned-out step.
	Instance *Instance `json:"instance,omitempty"`
	Now      time.Time `json:"now"` // of the step, by the workflow's clock
}

// Instance names one instance of a fanned-out step.
type Instance struct {
	Index int `json:"index"`
	// List is the blob of all instances, as Expand made it; empty for a repeated step.
	List string `json:"list,omitempty"`
}

// ID is how the step or the instance is called in workflow IDs, folders and logs: fit, or fit.3.
func (a StepRef) ID() string {
	if a.Instance == nil {
		return a.Step
	}
	return a.Step + "." + strconv.Itoa(a.Instance.Index)
}

// SplitStep is the inverse of StepRef.ID: a step, and the instance's index, or -1.
func SplitStep(id string) (step string, index int) {
	step, number, isInstance := strings.Cut(id, ".")
	if n, err := strconv.Atoi(number); isInstance && err == nil {
		return step, n
	}
	return step, -1
}

// ChildRun is the run of a child pipeline's attempt.
func ChildRun(run, step string, attempt int) string {
	id := run + "." + step
	if attempt > 1 {
		id += "-" + strconv.Itoa(attempt)
	}
	return id
}

// RootRun returns the run at the top of a run's chain of parents; for a run that is not a child, itself.
func RootRun(run string) string {
	root, _, _ := strings.Cut(run, ".")
	return root
}

// RunContext is what steps that run after the end of the main ones may ask for.
type RunContext struct {
	Status  spec.Status       `json:"status,omitempty"`
	Failed  []spec.FailedStep `json:"failed,omitempty"`
	CostUSD float64           `json:"cost_usd,omitempty"`
	// CostUnknown: of a part of it nobody knows the price, and CostUSD is without that.
	CostUnknown bool `json:"cost_unknown,omitempty"`
}

// StepInput is what the activity or child workflow of a step is given.
type StepInput struct {
	Run string `json:"run"`
	// Step is the step's ID, with the instance's number behind a dot where it has any.
	Step string    `json:"step"`
	Kind spec.Kind `json:"kind"`
	// Spec is the resolved spec of the kind, inline, or by digest when it is large.
	Spec    json.RawMessage   `json:"spec,omitempty"`
	SpecRef string            `json:"spec_ref,omitempty"`
	Env     map[string]string `json:"env,omitempty"`
	// Secrets are variables with the names of the secrets they take; values never travel.
	Secrets   map[string]string `json:"secrets,omitempty"`
	Workspace artifact.Ref      `json:"workspace"`
	// Submission names the environment the step's pools and targets are looked up in.
	Submission string `json:"submission"`
	// Fresh: nothing that was made before may take the place of doing it.
	Fresh bool `json:"fresh,omitempty"`
	// ResumeRun is the earlier run that did the same and did not finish it, where this step goes on from what that left.
	ResumeRun string `json:"resume_run,omitempty"`
	// AttemptTimeout bounds an attempt of a step that may first have to wait until the limits of its environment leave room for it, from the end
	// of the wait; 0 where there are no such limits.
	AttemptTimeout time.Duration `json:"attempt_timeout,omitempty"`
	// AnyWorker: what the step works with is in no worker's process, as the gateways of a target with a URL are not, so that also a stateless
	// worker may do it whose kind is else done by the others.
	AnyWorker bool `json:"any_worker,omitempty"`
}

// StepOutput is what it returns: the outputs object, inline or by digest when above 4 KB.
type StepOutput struct {
	Outputs    json.RawMessage `json:"outputs,omitempty"`
	OutputsRef string          `json:"outputs_ref,omitempty"`
	// Account says what nodes of pools did for the step, and cost, where that is not among its outputs: a spec.TrainOutput.
	Account json.RawMessage `json:"account,omitempty"`
}

// IsZero reports whether there are no outputs, and no account.
func (o StepOutput) IsZero() bool { return o.Outputs == nil && o.OutputsRef == "" && o.Account == nil }

// Attempt is one try of a step that did not succeed.
type Attempt struct {
	StartedAt time.Time `json:"started_at"`
	EndedAt   time.Time `json:"ended_at"`
	ErrorType string    `json:"error_type"`
	Error     string    `json:"error"`
	// Interrupted: the worker stopped answering while the attempt ran, so it did not fail by itself and used up no retry. Records of earlier
	// versions do not say.
	Interrupted bool `json:"interrupted,omitempty"`
}

// Version is a published dataset or model.
type Version struct {
	Type artifact.Type `json:"type"`
	Name string        `json:"name"`
}

// RunRecord is runs/<run>/run.json.
type RunRecord struct {
	Run string `json:"run"`
	// Execution is that of BeginInput; empty in records of older versions.
	Execution string `json:"execution,omitempty"`
	// Home names the Temporal server that has the run's workflow, among those whose runs are in one store; empty in records of older versions.
	Home        string            `json:"home,omitempty"`
	Pipeline    string            `json:"pipeline"`
	Submission  string            `json:"submission"`
	Status      spec.Status       `json:"status"`
	Error       string            `json:"error,omitempty"`
	ErrorType   string            `json:"error_type,omitempty"`
	StartedAt   time.Time         `json:"started_at"`
	EndedAt     time.Time         `json:"ended_at,omitzero"`
	Params      spec.Values       `json:"params,omitempty"`
	Graph       []spec.Node       `json:"graph"`
	Outputs     spec.Values       `json:"outputs,omitempty"`
	Reuse       Reuse             `json:"reuse,omitzero"`
	Trigger     spec.TriggerFacts `json:"trigger,omitzero"`
	ScheduledAt time.Time         `json:"scheduled_at,omitzero"`
	CostUSD     float64           `json:"cost_usd,omitempty"`
	// CostUnknown: of a part of it nobody knows the price, and CostUSD is without that.
	CostUnknown bool `json:"cost_unknown,omitempty"`
	// Last and Serving are the runs that `last` and `serving.<target>` meant, read once at the start.
	Last    string            `json:"last,omitempty"`
	Serving map[string]string `json:"serving,omitempty"`
	// Datasets and Models are the versions that published names meant, read at the same time.
	Datasets map[string]artifact.Ref `json:"datasets,omitempty"`
	Models   map[string]artifact.Ref `json:"models,omitempty"`
}

// StepRecord is runs/<run>/steps/<step>.json.
type StepRecord struct {
	Step      string          `json:"step"`
	Kind      spec.Kind       `json:"kind"`
	Status    spec.Status     `json:"status"`
	Error     string          `json:"error,omitempty"`
	ErrorType string          `json:"error_type,omitempty"`
	StartedAt time.Time       `json:"started_at,omitzero"`
	EndedAt   time.Time       `json:"ended_at,omitzero"`
	Outputs   json.RawMessage `json:"outputs,omitempty"`
	// OutputsRef is the blob of the outputs of a step with very many instances, in place of Outputs.
	OutputsRef string `json:"outputs_ref,omitempty"`
	// Account is that of the step's output.
	Account   json.RawMessage `json:"account,omitempty"`
	Verdict   spec.Verdict    `json:"verdict,omitempty"`
	Checks    []spec.Check    `json:"checks,omitempty"`
	Attempts  []Attempt       `json:"attempts,omitempty"`
	Published []string        `json:"published,omitempty"`
	// ReusedFrom is the run whose result was taken over.
	ReusedFrom string `json:"reused_from,omitempty"`
	// Key is the cache key of what was done, Parts the digests of what it is made of.
	Key   string            `json:"key,omitempty"`
	Parts map[string]string `json:"parts,omitempty"`
	// Index is that of an instance, counted from 0; Of is how many instances a fanned-out step had, Passed how many of them passed.
	Index  int `json:"index,omitempty"`
	Of     int `json:"of,omitempty"`
	Passed int `json:"passed,omitempty"`
	// Matrix or Item is what an instance is about.
	Matrix json.RawMessage `json:"matrix,omitempty"`
	Item   json.RawMessage `json:"item,omitempty"`
	// Decision and Earlier are those of the step's end.
	Decision *Decision  `json:"decision,omitempty"`
	Earlier  []Decision `json:"earlier_decisions,omitempty"`
	CostUSD  float64    `json:"cost_usd,omitempty"`
	// CostUnknown: of a part of it nobody knows the price, and CostUSD is without that.
	CostUnknown bool   `json:"cost_unknown,omitempty"`
	Summary     string `json:"summary,omitempty"`
	// ChildRun is the run of a step of kind pipeline, for those who look at it; it is not stored.
	ChildRun string `json:"-"`
}
