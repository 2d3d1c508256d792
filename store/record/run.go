package record

import (
	"encoding/json"
	"strconv"
	"strings"
	"time"

	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/artifact"
)

// Submission is everything that was submitted; nothing is read from the submitter's disk later. The store keeps it by digest.
type Submission struct {
	// File and EnvFile are the names of the submitter's files in the workspace. They are used in messages, and no step depends on these files.
	// An environment outside the workspace is ../NAME.
	File     string `json:"file"`
	Pipeline []byte `json:"pipeline"`
	// Inline is set if the pipeline is written inside that of a parent. File is then only a name.
	Inline      bool   `json:"inline,omitempty"`
	EnvFile     string `json:"env_file"`
	Environment []byte `json:"environment,omitempty"`
	// Params are the values given, before defaults.
	Params map[string]string `json:"params,omitempty"`
	// Values are passed by a parent run, in place of Params.
	Values spec.Values `json:"values,omitempty"`
	// Parents are the names of the documents of parent runs. Like File and EnvFile, they are in the workspace, and no step depends on them.
	Parents   []string     `json:"parents,omitempty"`
	Workspace artifact.Ref `json:"workspace"`
	// Python is the absolute path of the virtual environment next to the pipeline on the submitter's machine. It is empty if there is none,
	// and for a cluster, whose workers run on other machines.
	Python string `json:"python,omitempty"`
}

// Reuse says which results of earlier runs a run may reuse.
type Reuse struct {
	// From is the run whose finished steps are reused as they are, unless what they would do has changed since.
	From string `json:"from,omitempty"`
	// Again lists steps that run even if their results could be reused.
	Again []string `json:"again,omitempty"`
	// Only, if not empty, lists the steps that run. The results of all others must be reusable, or the steps are skipped.
	Only []string `json:"only,omitempty"`
	// Needed lists the steps outside Only that steps in Only wait for. Without their results, the run would do nothing.
	Needed []string `json:"needed,omitempty"`
	// NoCache turns the step cache off.
	NoCache bool `json:"no_cache,omitempty"`
}

// Parent is the step of another run that a child run belongs to, and what it hands to the child's keys.
type Parent struct {
	Run string `json:"run"`
	// Step is the ID of the step, or of an instance.
	Step   string `json:"step"`
	Python string `json:"python,omitempty"`
	Needs  Needs  `json:"needs,omitzero"`
}

// RunOutput is a pipeline workflow's result.
type RunOutput struct {
	Status spec.Status `json:"status"`
	// Error is the first failure, for people; ErrorType its type.
	Error     string `json:"error,omitempty"`
	ErrorType string `json:"error_type,omitempty"`
	// GaveWayTo is the run of the concurrency group that turned this one away or canceled it.
	GaveWayTo string `json:"gave_way_to,omitempty"`
	// Outputs are the outputs of the pipeline, and CostUSD is its cost. Both are for the step of a parent run.
	Outputs StepOutput `json:"outputs,omitzero"`
	CostUSD float64    `json:"cost_usd,omitempty"`
	// CostUnknown is set if the price of some part is not known. CostUSD does not include that part.
	CostUnknown bool `json:"cost_unknown,omitempty"`
}

// StepRef identifies what a local activity of the engine is about: a step of a run, or an instance of one.
type StepRef struct {
	Run        string `json:"run,omitempty"`
	Submission string `json:"submission,omitempty"`
	Step       string `json:"step"`
	// Instance is set for an instance of a fanned-out step.
	Instance *Instance `json:"instance,omitempty"`
	Now      time.Time `json:"now"` // of the step, by the workflow's clock
}

// Instance names one instance of a fanned-out step.
type Instance struct {
	Index int `json:"index"`
	// List is the blob of all instances, as Expand made it; empty for a repeated step.
	List string `json:"list,omitempty"`
}

// ID returns the name of the step or the instance in workflow IDs, folders and logs: fit, or fit.3.
func (a StepRef) ID() string {
	if a.Instance == nil {
		return a.Step
	}
	return a.Step + "." + strconv.Itoa(a.Instance.Index)
}

// SplitStep is the inverse of StepRef.ID. It returns the step and the index of the instance, or -1 for a step.
func SplitStep(id string) (step string, index int) {
	step, number, isInstance := strings.Cut(id, ".")
	if n, err := strconv.Atoi(number); isInstance && err == nil {
		return step, n
	}
	return step, -1
}

// ChildRun returns the name of the run of an attempt of a child pipeline.
func ChildRun(run, step string, attempt int) string {
	id := run + "." + step
	if attempt > 1 {
		id += "-" + strconv.Itoa(attempt)
	}
	return id
}

// RunContext is what steps that run after the main ones can refer to.
type RunContext struct {
	Status  spec.Status       `json:"status,omitempty"`
	Failed  []spec.FailedStep `json:"failed,omitempty"`
	CostUSD float64           `json:"cost_usd,omitempty"`
	// CostUnknown is set if the price of some part is not known. CostUSD does not include that part.
	CostUnknown bool `json:"cost_unknown,omitempty"`
}

// StepInput is the input of a step's activity or child workflow.
type StepInput struct {
	Run string `json:"run"`
	// Step is the step's ID, followed by a dot and the index if it is an instance.
	Step string    `json:"step"`
	Kind spec.Kind `json:"kind"`
	// Spec is the resolved spec of the kind, inline, or by digest when it is large.
	Spec    json.RawMessage   `json:"spec,omitempty"`
	SpecRef string            `json:"spec_ref,omitempty"`
	Env     map[string]string `json:"env,omitempty"`
	// Secrets maps variables to the names of the secrets they get. Values are never passed on.
	Secrets   map[string]string `json:"secrets,omitempty"`
	Workspace artifact.Ref      `json:"workspace"`
	// Submission names the environment in which the step's pools and targets are looked up.
	Submission string `json:"submission"`
	// Fresh is set if no earlier result may be reused.
	Fresh bool `json:"fresh,omitempty"`
	// InPlace are the digests of the files that a cleaning reads in place, by pattern, as they are in its cache key.
	InPlace map[string]string `json:"in_place,omitempty"`
	// ResumeRun is an earlier run that did the same step and did not finish it, if this step continues from what that run left.
	ResumeRun string `json:"resume_run,omitempty"`
	// AttemptTimeout bounds an attempt of a step that may first have to wait until the limits of its environment leave room for it. It starts
	// at the end of the wait. It is 0 if there are no such limits.
	AttemptTimeout time.Duration `json:"attempt_timeout,omitempty"`
	// AnyWorker is set if the step needs nothing in the process of a particular worker, as with a target that has a URL, whose gateways run
	// elsewhere. A stateless worker may then run it, even if its kind is otherwise left to other workers.
	AnyWorker bool `json:"any_worker,omitempty"`
	// Python is what the step's key has of the installed Python, which may change until its program starts.
	Python string `json:"python,omitempty"`
	// Needs are those of a step that runs a child pipeline.
	Needs Needs `json:"needs,omitzero"`
}

// Needs stand for the results that the step of a child run needs, in the keys of the child's steps: those of Direct needs, and of All that
// come before.
type Needs struct {
	Direct string `json:"direct,omitempty"`
	All    string `json:"all,omitempty"`
}

// StepOutput is the result of a step: its outputs object, inline, or by digest above 4 KiB.
type StepOutput struct {
	Outputs    json.RawMessage `json:"outputs,omitempty"`
	OutputsRef string          `json:"outputs_ref,omitempty"`
	// Account is a spec.TrainOutput: what nodes of pools did for the step and what they cost, unless that is part of the outputs.
	Account json.RawMessage `json:"account,omitempty"`
	// Unkeyed says that the step's key does not stand for the outputs: what the step read has changed since the key was made.
	Unkeyed bool `json:"unkeyed,omitempty"`
}

// IsZero reports whether there are no outputs, and no account.
func (o StepOutput) IsZero() bool { return o.Outputs == nil && o.OutputsRef == "" && o.Account == nil }

// Attempt is an attempt of a step that did not succeed.
type Attempt struct {
	StartedAt time.Time `json:"started_at"`
	EndedAt   time.Time `json:"ended_at"`
	ErrorType string    `json:"error_type"`
	Error     string    `json:"error"`
	// Interrupted is set if the worker stopped responding during the attempt. The attempt then did not fail by itself and used up no retry.
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
	// Execution is BeginInput.Execution.
	Execution string `json:"execution,omitempty"`
	// Home identifies the Temporal server of the run's workflow among the servers that share the store.
	Home        string            `json:"home,omitempty"`
	Pipeline    string            `json:"pipeline"`
	Submission  string            `json:"submission"`
	Status      spec.Status       `json:"status"`
	Error       string            `json:"error,omitempty"`
	ErrorType   string            `json:"error_type,omitempty"`
	GaveWayTo   string            `json:"gave_way_to,omitempty"` // as in RunOutput
	StartedAt   time.Time         `json:"started_at"`
	EndedAt     time.Time         `json:"ended_at,omitzero"`
	Params      spec.Values       `json:"params,omitempty"`
	Graph       []spec.Node       `json:"graph"`
	Outputs     spec.Values       `json:"outputs,omitempty"`
	Reuse       Reuse             `json:"reuse,omitzero"`
	Parent      Parent            `json:"parent,omitzero"`
	Trigger     spec.TriggerFacts `json:"trigger,omitzero"`
	ScheduledAt time.Time         `json:"scheduled_at,omitzero"`
	CostUSD     float64           `json:"cost_usd,omitempty"`
	// CostUnknown is set if the price of some part is not known. CostUSD does not include that part.
	CostUnknown bool `json:"cost_unknown,omitempty"`
	// Settled is set when the run has had its turn in its concurrency group. The names below were resolved then.
	Settled bool `json:"settled,omitempty"`
	// Last and Serving are the runs that `last` and `serving.<target>` referred to.
	Last    string            `json:"last,omitempty"`
	Serving map[string]string `json:"serving,omitempty"`
	// Datasets and Models are the versions that published names referred to, of the names that the pipeline reads.
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
	// Account is the Account of the step's output.
	Account   json.RawMessage `json:"account,omitempty"`
	Verdict   spec.Verdict    `json:"verdict,omitempty"`
	Checks    []spec.Check    `json:"checks,omitempty"`
	Attempts  []Attempt       `json:"attempts,omitempty"`
	Published []string        `json:"published,omitempty"`
	// ReusedFrom is the run whose result was reused.
	ReusedFrom string `json:"reused_from,omitempty"`
	// Key is the cache key, and Parts are the digests of what the key is made of.
	Key   string            `json:"key,omitempty"`
	Parts map[string]string `json:"parts,omitempty"`
	// Index is the index of an instance, from 0. Of is how many instances a fanned-out step had, and Passed how many of them passed.
	Index  int `json:"index,omitempty"`
	Of     int `json:"of,omitempty"`
	Passed int `json:"passed,omitempty"`
	// Result stands for the results of the instances of a fanned-out step in the keys of steps that need it.
	Result string `json:"result,omitempty"`
	// Matrix or Item is what an instance is about.
	Matrix json.RawMessage `json:"matrix,omitempty"`
	Item   json.RawMessage `json:"item,omitempty"`
	// Decision is the last decision of a person about the gate that held the step, and Earlier are those about its other conditions.
	Decision *Decision  `json:"decision,omitempty"`
	Earlier  []Decision `json:"earlier_decisions,omitempty"`
	CostUSD  float64    `json:"cost_usd,omitempty"`
	// CostUnknown is set if the price of some part is not known. CostUSD does not include that part.
	CostUnknown bool   `json:"cost_unknown,omitempty"`
	Summary     string `json:"summary,omitempty"`
	// ChildRun is the run of a step of kind pipeline, for display. It is not stored.
	ChildRun string `json:"-"`
}
