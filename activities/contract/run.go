// Package contract has the names, inputs and outputs of workflows and activities. It has no behaviour, so that both sides can import it.
package contract

import (
	"strconv"
	"strings"
	"time"

	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/store/record"
)

// TaskQueue is the queue that every Sluice worker polls. HostQueue is that of trainings, and of rollouts to targets whose gateways live in
// the process of a worker, as the nodes of a local pool do: stateless workers do not poll it.
const (
	TaskQueue = "sluice"
	HostQueue = "sluice-host"
)

// Workflow types.
const (
	PipelineWorkflow = "sluice.pipeline"
	LaneWorkflow     = "sluice.lane"
	ApprovalWorkflow = "sluice.approval"
	LockWorkflow     = "sluice.lock"
	TrainWorkflow    = "sluice.train"
	RolloutWorkflow  = "sluice.rollout"
)

// Activity types of the engine. All but Gather, Keep, Alive, Deadlock and Vacant run as local activities.
const (
	BeginActivity    = "sluice.begin"
	SettleActivity   = "sluice.settle"
	ResolveActivity  = "sluice.resolve"
	ExpandActivity   = "sluice.expand"
	VerdictActivity  = "sluice.judge"
	GatherActivity   = "sluice.gather"
	ChildActivity    = "sluice.child"
	SyncActivity     = "sluice.sync"
	RecordActivity   = "sluice.record"
	FinishActivity   = "sluice.finish"
	KeepActivity     = "sluice.keep"
	AliveActivity    = "sluice.alive"
	DeadlockActivity = "sluice.deadlock"
	VacantActivity   = "sluice.vacant"
)

// Activity types of the kinds whose effect is one activity.
const (
	CleanActivity    = "sluice.clean"
	EvaluateActivity = "sluice.evaluate"
	CompileActivity  = "sluice.compile"
	RunActivity      = "sluice.run"
)

// CancelSignal asks a run that is canceled already to stop what its on_failure or finally steps still do.
const CancelSignal = "sluice.cancel"

// RunWorkflowID is the workflow ID of a run. RunOf is its inverse.
func RunWorkflowID(run string) string { return runPrefix + extended(run) }

// ActivityID is the ID of a step's activity, by which the progress of the step is found.
func ActivityID(step string, attempt int) string { return step + "/" + strconv.Itoa(attempt) }

// AttemptOf returns the attempt in the ID of a step's activity, from 1.
func AttemptOf(activityID string) int {
	attempt, _ := strconv.Atoi(activityID[strings.LastIndexByte(activityID, '/')+1:])
	return max(1, attempt)
}

// trainPrefix begins the workflow IDs of trainings.
const trainPrefix = "train/"

// TrainWorkflowID is the workflow ID of a training step, or of another step on nodes of pools.
func TrainWorkflowID(run, step string) string { return trainPrefix + run + "/" + step }

// IsTrainWorkflow reports whether that is the workflow ID of a training, or of another step on nodes of pools.
func IsTrainWorkflow(id string) bool { return strings.HasPrefix(id, trainPrefix) }

// RolloutWorkflowID is the workflow ID of a rollout: one at a time per target.
func RolloutWorkflowID(target string) string { return "rollout/" + target }

// RunInput starts a pipeline workflow.
type RunInput struct {
	// Run is the run's ID. A schedule leaves it empty: it is then what the workflow ID says.
	Run        string `json:"run,omitempty"`
	Name       string `json:"name"`
	Submission string `json:"submission"` // digest
	// Graph in topological order: the main steps, then those of on_failure, then those of finally.
	Graph []spec.Node  `json:"graph"`
	Reuse record.Reuse `json:"reuse,omitzero"`
	// BudgetUSD is the rest of the parent run's budget, for a child, whose own may be smaller; 0 means that the parent has no budget.
	BudgetUSD float64 `json:"budget_usd,omitempty"`
	// Parent is that of the run of a child pipeline.
	Parent record.Parent `json:"parent,omitzero"`
	// Trigger is what started the run, unless a person did, and ScheduledAt the time for which a schedule did. A rerun has those of the run that
	// it repeats.
	Trigger     spec.TriggerFacts `json:"trigger,omitzero"`
	ScheduledAt time.Time         `json:"scheduled_at,omitzero"`
	// Continuation is the state that an earlier history of the run hands over when it has become long.
	Continuation *RunContinuation `json:"carried,omitempty"`
}

// RunContinuation is the state of a run between two of its workflow's histories.
type RunContinuation struct {
	StartedAt time.Time         `json:"started_at"`
	Steps     []StepState       `json:"steps"`
	Failed    []spec.FailedStep `json:"failed,omitempty"`
	Declined  string            `json:"declined,omitempty"`
	Skipped   string            `json:"skipped,omitempty"`
	CostUSD   float64           `json:"cost_usd,omitempty"`
	// CostUnknown: of a part of it nobody knows the price, and CostUSD is without that.
	CostUnknown bool        `json:"cost_unknown,omitempty"`
	Begin       BeginOutput `json:"begun"`
	// Tries are those of steps that failed and are to be tried again, by step.
	Tries map[string]Tries `json:"tries,omitempty"`
	// Queued is set if the run waits for its concurrency group and nothing has started.
	Queued bool `json:"queued,omitempty"`
	// Canceled and OverBudget say why no further main step starts: a person canceled the run, or the budget is spent.
	Canceled   bool `json:"canceled,omitempty"`
	OverBudget bool `json:"broke,omitempty"`
	// Unbegun is how the run ends if it never got its turn of its concurrency group.
	Unbegun *record.RunOutput `json:"without_turn,omitempty"`
	// GaveWayTo is the run of the concurrency group that canceled this one.
	GaveWayTo string `json:"gave_way_to,omitempty"`
	// Cut is the section after the main one that a further cancellation stopped.
	Cut spec.Section `json:"cut,omitempty"`
	// Notified is how many events people were notified of.
	Notified int `json:"notified,omitempty"`
	// RolledBack: a release of the run was rolled back.
	RolledBack bool `json:"rolled_back,omitempty"`
	// Datasets and Models are names that the run has published, which it can be found by.
	Datasets []string `json:"datasets,omitempty"`
	Models   []string `json:"models,omitempty"`
}

// BeginInput opens the run's record.
type BeginInput struct {
	RunInput
	// Execution is the run ID that Temporal gave to the first execution of the workflow. It stays the same in later attempts and histories.
	Execution string `json:"execution,omitempty"`
	// StartedAt is when that execution was started.
	StartedAt time.Time `json:"started_at"`
}

// BeginOutput is what the workflow needs to know about the pipeline as a whole.
type BeginOutput struct {
	// Concurrency with its group filled in; an empty group means none.
	Concurrency spec.Concurrency `json:"concurrency,omitzero"`
	BudgetUSD   float64          `json:"budget_usd,omitempty"`
	// Notify lists the events that have receivers.
	Notify []string `json:"notify,omitempty"`
	// Keeps is set if the pipeline's `keep` removes older runs when a run ends.
	Keeps bool `json:"keeps,omitempty"`
	// MadeUp is set if a schedule makes up for a time that has had its run, which is left as it is.
	MadeUp bool `json:"made_up,omitempty"`
}

// SettleInput requests what a run reads of others, now that it has its turn.
type SettleInput struct {
	Run        string `json:"run"`
	Submission string `json:"submission"`
}

// KeepInput requests what a pipeline's `keep` does at the end of a run.
type KeepInput struct {
	Run        string `json:"run"`
	Submission string `json:"submission"`
}

// ResolveInput requests the resolved spec of a step.
type ResolveInput struct {
	record.StepRef
	Reuse record.Reuse `json:"reuse,omitzero"`
	// Situation of the run, for the steps of on_failure and finally.
	record.RunContext
	// Ends are of earlier steps, whose records are to be written first.
	Ends []StepEnd `json:"ends,omitempty"`
}

// Resolved is what a step must do.
type Resolved struct {
	// Skip: the step's `when` was false, or Reuse.Only leaves it out.
	Skip string `json:"skip,omitempty"`
	// Step is the input of the step's activity or child.
	Step record.StepInput `json:"step"`
	// Hit is the run of an earlier execution of the same step, and Output its result.
	Hit    string            `json:"hit,omitempty"`
	Output record.StepOutput `json:"output,omitzero"`
	// Key is the step's cache key, Summary its own line.
	Key     string `json:"key,omitempty"`
	Summary string `json:"summary,omitempty"`
	// Ask is the question of an approval.
	Ask *ApprovalInput `json:"ask,omitempty"`
}

// Expanded lists the instances of a fanned-out step.
type Expanded struct {
	// Skip: as in Resolved.
	Skip string `json:"skip,omitempty"`
	List string `json:"list,omitempty"` // blob of []spec.Instance
	Of   int    `json:"of"`
}

// PerformInput is the input of an activity that executes a step by itself. Besides the step it says how a success is evaluated, so that the
// activity can do that and the workflow needs no task of its own for it.
type PerformInput struct {
	record.StepInput
	// End is the step's end without the results of the execution; its run and submission are those of the step. If it is nil, the workflow
	// has the step evaluated.
	End *StepEnd `json:"judge,omitempty"`
	// Ends: as in ResolveInput.
	Ends []StepEnd `json:"ends,omitempty"`
}

// Performed is what that activity returns.
type Performed struct {
	record.StepOutput
	// Verdict is the verdict on the step, which is not recorded yet. It is nil if the step was not evaluated.
	Verdict *StepVerdict `json:"judged,omitempty"`
	// Rows are those of a cleaning, to be counted.
	Rows *spec.Rows `json:"rows,omitempty"`
}

// ChildInput requests the run of a child pipeline; the activity returns its RunInput.
type ChildInput struct {
	record.StepInput
	Attempt int          `json:"attempt"`
	Reuse   record.Reuse `json:"reuse,omitzero"`
	// BudgetUSD limits the cost of the child; 0 means no limit.
	BudgetUSD float64 `json:"budget_usd,omitempty"`
}

// Tries are the attempts of a step, or an instance, in earlier histories of its workflow.
type Tries struct {
	Attempts []record.Attempt `json:"attempts"`
	// Used and Lost count the attempts that used up the step's retries, and those whose worker died.
	Used int `json:"used,omitempty"`
	Lost int `json:"lost,omitempty"`
	// Again is when the next attempt starts.
	Again       time.Time `json:"again"`
	CostUSD     float64   `json:"cost_usd,omitempty"`
	CostUnknown bool      `json:"cost_unknown,omitempty"`
}

// StepEnd is the input for ending a step: evaluating its gate, recording and publishing it.
type StepEnd struct {
	record.StepRef
	record.RunContext
	Kind spec.Kind `json:"kind"`
	// Key is the step's cache key, Line its own summary.
	Key  string `json:"key,omitempty"`
	Line string `json:"line,omitempty"`
	// CostUSD of a child pipeline.
	CostUSD float64 `json:"child_cost_usd,omitempty"`
	// CostUnknown: of a part of that nobody knows the price.
	CostUnknown bool `json:"child_cost_unknown,omitempty"`
	// Unsynced is set if the record is written while the run continues. Until the run calls Sync, it can have the record written again by
	// Record.
	Unsynced bool `json:"volatile,omitempty"`
	// Status is succeeded, failed, canceled, skipped or upstream, before the gate.
	Status    spec.Status       `json:"status,omitempty"`
	Output    record.StepOutput `json:"output,omitzero"`
	Error     string            `json:"error,omitempty"`
	ErrorType string            `json:"error_type,omitempty"`
	Attempts  []record.Attempt  `json:"attempts,omitempty"`
	EndedAt   time.Time         `json:"ended_at,omitzero"`
	// ReusedFrom is the run whose outputs these are.
	ReusedFrom string `json:"reused_from,omitempty"`
	// Decision is the last decision of a person about the gate that held the step, and Earlier are those about its other conditions.
	Decision *record.Decision  `json:"decision,omitempty"`
	Earlier  []record.Decision `json:"earlier_decisions,omitempty"`
	// Next are steps that wait only for the success of this one, and are resolved together with its verdict.
	Next []ResolveInput `json:"next,omitempty"`
	// Ends: as in ResolveInput.
	Ends []StepEnd `json:"ends,omitempty"`
}

// StepVerdict is how a step ended.
type StepVerdict struct {
	Status    spec.Status `json:"status"`
	Error     string      `json:"error,omitempty"`
	ErrorType string      `json:"error_type,omitempty"`
	// Summary is one line for people: the verdict with the values it saw.
	Summary string `json:"summary,omitempty"`
	// Checks that were made, for history.
	Checks []spec.Check `json:"checks,omitempty"`
	// Hold is set with StatusHold: who is asked, and what.
	Hold *ApprovalInput `json:"hold,omitempty"`
	// Published are the versions that the step published.
	Published []record.Version `json:"published,omitempty"`
	// Next are the resolved steps of StepEnd.Next, nil for those that must be resolved separately.
	Next []*Resolved `json:"next,omitempty"`
	// Done: a repeated step needs no further iteration.
	Done bool `json:"done,omitempty"`
	// CostUSD is what the step cost.
	CostUSD float64 `json:"cost_usd,omitempty"`
	// CostUnknown: of a part of it nobody knows the price, and CostUSD is without that.
	CostUnknown bool `json:"cost_unknown,omitempty"`
}

// SyncInput makes the records of steps durable.
type SyncInput struct {
	Run  string           `json:"run"`
	Ends []record.StepRef `json:"ends"`
}

// RecordInput requests the records of ended steps, in this order, including records that a crash of the machine has destroyed.
type RecordInput struct {
	Ends []StepEnd `json:"ends"`
}

// GatherInput requests the result of a step with instances.
type GatherInput struct {
	StepEnd
	Fan     spec.Fan   `json:"fan"`
	List    string     `json:"list,omitempty"`
	Require spec.Share `json:"require,omitempty"`
	Of      int        `json:"of"`
}

// FinishInput closes the run's record.
type FinishInput struct {
	Run        string    `json:"run"`
	Submission string    `json:"submission"`
	EndedAt    time.Time `json:"ended_at"`
	CostUSD    float64   `json:"cost_usd,omitempty"`
	record.RunOutput
}
