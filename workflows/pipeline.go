// Package workflows is Sluice's deterministic orchestration, with one file for each kind that needs any. Nothing in it does I/O, reads a
// clock, ranges over a map or evaluates an expression; it calls activities and keeps state.
package workflows

import (
	"cmp"
	"slices"
	"strconv"
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/sluiceml/sluice/activities/contract"
	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/fault"
	"github.com/sluiceml/sluice/store/record"
	"github.com/sluiceml/sluice/workflows/durable"
)

// Pipeline executes a run's graph: the main steps, then those of on_failure if something failed, then those of finally in every case. A
// cancellation stops the main steps; another one stops the section that is running. If the run never gets its turn of its concurrency group,
// because it is turned away or canceled while it waits, none of its steps runs: whatever they work on belongs to the run that holds the
// group. The workflow fails with the error type of the first failed step, and ends as canceled if its main steps were canceled; a declined or
// skipped run completes.
func Pipeline(ctx workflow.Context, in contract.RunInput) (record.RunOutput, error) {
	ctx = durable.Measured(ctx)
	r := newRun(ctx, in)
	if err := workflow.SetQueryHandler(ctx, contract.StateQuery, r.state); err != nil {
		return record.RunOutput{}, err
	}
	if in.Continuation == nil {
		if err := r.openRecord(ctx); err != nil {
			return record.RunOutput{}, err
		}
		if r.Begin.MadeUp { // a failure would pause the schedule
			return record.RunOutput{Status: spec.StatusSkipped, Error: "run " + r.in.Run + " was there before, and is left as it is"}, nil
		}
	}
	if in.Continuation == nil || in.Continuation.Queued {
		if r.acquireGroup(ctx) {
			return record.RunOutput{}, workflow.NewContinueAsNewError(ctx, contract.PipelineWorkflow, r.carry(ctx, true))
		}
		if r.Unbegun == nil {
			r.notify(ctx, spec.EventStart, "")
		}
	}
	r.listen(ctx)
	r.listenForCancels(ctx)
	main, stop := workflow.WithCancel(ctx)
	r.stop = stop
	if r.OverBudget {
		stop()
	}
	for _, section := range []spec.Section{spec.SectionMain, spec.SectionOnFailure, spec.SectionFinally} {
		within := main
		if section != spec.SectionMain {
			r.endMain(ctx)
			within = r.after(ctx, section)
		}
		if out := r.outcome(ctx); r.Unbegun == nil && section == spec.SectionOnFailure && !spec.EndOfRun(out.Status, out.ErrorType).HandlesFailure {
			r.omit(within, section)
		} else {
			r.walk(within, section)
		}
		if len(r.ready) > 0 { // only a long history kept them from being started
			if r.lost != nil {
				r.abandon()
				continue
			}
			return record.RunOutput{}, workflow.NewContinueAsNewError(ctx, contract.PipelineWorkflow, r.carry(ctx, false))
		}
	}
	return r.finish(ctx)
}

// run is the state of one pipeline workflow.
type run struct {
	// RunContinuation is what the next history would begin with, but for what carry fills in.
	contract.RunContinuation
	in        contract.RunInput
	waits     string      // what for, before anything has begun
	ended     spec.Status // how; empty until its record is closed
	cost      fault.Costs
	journal   journal
	turns     turns
	lost      error // records of steps that ended could not be kept
	stays     bool  // nothing that is left goes on in a new history, which could not make those records again
	mainOver  bool  // the main steps have ended: a cancel comes too late for them
	stop      workflow.CancelFunc
	stopAfter workflow.CancelFunc // stops the later section that is under way
	index     map[string]int
	waiting   []int   // how many needed steps have not ended
	readers   [][]int // who waits for a step
	resolved  map[int]*contract.Resolved
	section   spec.Section
	ready     []int     // steps that wait for nothing, and were not started yet
	inFlight  int       // weight of the steps that are under way
	shown     time.Time // when the details were last written
}

func newRun(ctx workflow.Context, in contract.RunInput) *run {
	n := len(in.Graph)
	info := workflow.GetInfo(ctx)
	r := &run{
		RunContinuation: contract.RunContinuation{StartedAt: info.WorkflowStartTime, Steps: make([]contract.StepState, n)}, in: in,
		index: make(map[string]int, n), waiting: make([]int, n), readers: make([][]int, n), resolved: map[int]*contract.Resolved{}, turns: turns{},
	}
	if r.in.Run == "" { // a schedule started it, and Temporal put the time behind the ID
		r.in.Run = contract.RunOf(info.WorkflowExecution.ID)
	}
	r.journal.run = r.in.Run
	if at, ok := workflow.GetTypedSearchAttributes(ctx).GetTime(scheduledStart); ok {
		r.in.ScheduledAt = at
		if r.in.Trigger.Name != "" && r.in.Trigger.Time.IsZero() {
			r.in.Trigger.Time = at
		}
	}
	for i, node := range in.Graph {
		r.index[node.ID] = i
		r.Steps[i] = contract.StepState{ID: node.ID, Kind: node.Kind, Status: spec.StatusPending}
	}
	if in.Continuation != nil {
		r.RunContinuation, r.in.Continuation = *in.Continuation, nil
		r.mainOver = !slices.ContainsFunc(in.Graph, func(n spec.Node) bool {
			return n.Section == spec.SectionMain && !r.Steps[r.index[n.ID]].Status.IsEnd()
		})
		r.cost = fault.Costs{USD: r.CostUSD, Unknown: r.CostUnknown}
	}
	if r.Tries == nil {
		r.Tries = map[string]contract.Tries{}
	}
	for i, node := range in.Graph {
		for _, need := range node.After {
			if up := r.index[need]; !r.Steps[up].Status.IsEnd() {
				r.waiting[i]++
				r.readers[up] = append(r.readers[up], i)
			}
		}
	}
	return r
}

// scheduledStart is the search attribute in which Temporal stores the scheduled time of a workflow that a schedule started.
var scheduledStart = temporal.NewSearchAttributeKeyTime("TemporalScheduledStartTime")

// carry returns the input of the next history. The run is queued if it still waits for its concurrency group.
func (r *run) carry(ctx workflow.Context, queued bool) contract.RunInput {
	in, next := r.in, r.RunContinuation
	next.CostUSD, next.CostUnknown, next.Queued = r.cost.USD, r.cost.Unknown, queued
	next.Canceled, next.GaveWayTo = r.isCanceled(ctx), r.evictedBy(ctx)
	in.Continuation = &next
	return in
}

func (r *run) state() (contract.RunState, error) {
	return contract.RunState{Status: cmp.Or(r.ended, spec.StatusRunning), Steps: r.Steps, Waits: r.waits}, nil
}

// openRecord opens the run's record.
func (r *run) openRecord(ctx workflow.Context) error {
	ctx, _ = workflow.NewDisconnectedContext(ctx) // a run that is cancelled at once has a record too
	in := contract.BeginInput{
		RunInput: r.in, Execution: workflow.GetInfo(ctx).FirstRunID, StartedAt: r.StartedAt,
	}
	if err := durable.Local(ctx, contract.BeginActivity, "open the run's record", in, &r.Begin); err != nil {
		return err
	}
	if above := r.in.BudgetUSD; above > 0 && (r.Begin.BudgetUSD == 0 || above < r.Begin.BudgetUSD) {
		r.Begin.BudgetUSD = above
	}
	return nil
}

// situation returns what steps after the main ones can read about the run.
func (r *run) situation(ctx workflow.Context, section spec.Section) record.RunContext {
	s := record.RunContext{CostUSD: r.cost.USD, CostUnknown: r.cost.Unknown}
	if section != spec.SectionMain {
		s.Status, s.Failed = r.outcome(ctx).Status, r.Failed
	}
	return s
}

// left returns the rest of the budget; 0 means that there is no budget.
func (r *run) left() float64 { return leftOf(r.Begin.BudgetUSD, r.cost.USD) }

// leftOf returns the rest of a budget. It is never 0 if there is one, because 0 means no budget.
func leftOf(budgetUSD, spentUSD float64) float64 {
	if budgetUSD == 0 {
		return 0
	}
	return max(budgetUSD-spentUSD, 0.000001)
}

// charge adds to the cost of the run. If the cost exceeds the budget, running steps are stopped.
func (r *run) charge(cost fault.Costs) {
	r.cost = r.cost.Add(cost)
	if r.Begin.BudgetUSD > 0 && r.cost.USD >= r.Begin.BudgetUSD {
		r.stopOverBudget()
	}
}

// hasSpent reports whether the run has spent its budget, apart from rounding errors.
func (r *run) hasSpent() bool {
	return r.Begin.BudgetUSD > 0 && r.cost.USD >= r.Begin.BudgetUSD*(1-1e-9)
}

// stopOverBudget stops running steps because the budget is spent.
func (r *run) stopOverBudget() {
	if !r.OverBudget {
		r.OverBudget = true
		r.stop()
	}
}

// sync makes the records of the run durable. If that fails, the run fails.
func (r *run) sync(ctx workflow.Context) {
	if err := r.journal.sync(ctx); err != nil {
		r.lost = err
	}
}

// abandon ends the steps of the section that have not been started, and lets later sections run in this history, however long it gets: the
// records of ended steps could not be stored, and no other history can write them again.
func (r *run) abandon() {
	for i, node := range r.in.Graph {
		if node.Section == r.section && !r.Steps[i].Status.IsEnd() {
			r.Steps[i].Status, r.Steps[i].Summary = spec.StatusCanceled, "not run: "+fault.Message(r.lost)
		}
	}
	r.ready, r.stays = nil, true
}

// finish closes the run's record and turns the steps' ends into the run's.
func (r *run) finish(ctx workflow.Context) (record.RunOutput, error) {
	r.sync(ctx)
	out := r.outcome(ctx)
	ctx, _ = workflow.NewDisconnectedContext(ctx)
	err := r.close(ctx, &out)
	if r.Unbegun == nil { // else it does not wait any more
		r.releaseGroup(ctx)
	}
	if err != nil {
		r.notify(ctx, spec.EventFail, fault.Message(err))
		return out, fault.WithCost(err, r.cost)
	}
	if event := spec.EndOfRun(out.Status, out.ErrorType).Event; event != "" {
		r.notify(ctx, event, out.Error)
	}
	r.keep(ctx)
	switch out.Status {
	case spec.StatusCanceled:
		return out, fault.WithCost(temporal.NewCanceledError(), r.cost)
	case spec.StatusFailed:
		return out, fault.WithCost(fault.New(out.ErrorType, out.Error, nil), r.cost)
	default:
		return out, nil
	}
}

// close records the end of the run where people look for it.
func (r *run) close(ctx workflow.Context, out *record.RunOutput) error {
	in := contract.FinishInput{
		Run: r.in.Run, Submission: r.in.Submission, EndedAt: workflow.Now(ctx), CostUSD: r.cost.USD, RunOutput: *out,
	}
	if err := durable.Local(ctx, contract.FinishActivity, "close the run's record: "+string(out.Status), in, out); err != nil {
		return err
	}
	r.ended = out.Status
	countRun(ctx, out.Status)
	workflow.SetCurrentDetails(ctx, r.details(out.Status))
	how := string(out.Status)
	if out.Status == spec.StatusFailed && r.RolledBack {
		how = contract.VerdictRolledBack
	}
	verdict := temporal.NewSearchAttributeKeyKeyword(contract.SearchVerdict).ValueSet(how)
	return workflow.UpsertTypedSearchAttributes(ctx, verdict)
}

const (
	// keepTimeout limits one attempt to remove older runs, and keepAttempts their number: the end of the next run tries again.
	keepTimeout  = 10 * time.Minute
	keepAttempts = 3
)

// keep removes the runs that the pipeline's `keep` does not keep. If it fails, the run does not.
func (r *run) keep(ctx workflow.Context) {
	if !r.Begin.Keeps {
		return
	}
	ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		StartToCloseTimeout: keepTimeout, HeartbeatTimeout: durable.HeartbeatTimeout, RetryPolicy: &temporal.RetryPolicy{MaximumAttempts: keepAttempts},
		Summary: "remove older runs",
	})
	in := contract.KeepInput{Run: r.in.Run, Submission: r.in.Submission}
	if err := workflow.ExecuteActivity(ctx, contract.KeepActivity, in).Get(ctx, nil); err != nil {
		workflow.GetLogger(ctx).Error("older runs are not removed", "error", err)
	}
}

// outcome returns the end of the run as far as it is known.
func (r *run) outcome(ctx workflow.Context) record.RunOutput {
	out := record.RunOutput{Status: spec.StatusSucceeded, CostUSD: r.cost.USD, CostUnknown: r.cost.Unknown}
	switch {
	case r.lost != nil:
		out.Status, out.Error, out.ErrorType = spec.StatusFailed, fault.Message(r.lost), fault.TypeOf(r.lost)
	case r.Unbegun != nil:
		out.Status, out.Error, out.ErrorType, out.GaveWayTo = r.Unbegun.Status, r.Unbegun.Error, r.Unbegun.ErrorType, r.Unbegun.GaveWayTo
	case r.OverBudget:
		out.Status, out.ErrorType = spec.StatusFailed, fault.Budget
		out.Error = "the run was stopped because it has cost $" + dollars(r.cost.USD) + " of its budget of $" + dollars(r.Begin.BudgetUSD)
	case r.isCanceled(ctx):
		out.Status, out.Error, out.ErrorType = spec.StatusCanceled, "canceled", fault.Canceled
		if out.GaveWayTo = r.evictedBy(ctx); out.GaveWayTo != "" {
			out.Error = "canceled: run " + out.GaveWayTo + " took its place in the group `" + r.Begin.Concurrency.Group + "`"
		}
	case len(r.Failed) > 0:
		first := r.Failed[0]
		out.Status, out.Error, out.ErrorType = spec.StatusFailed, first.Step+": "+first.Error, first.Type
	case r.Declined != "":
		out.Status, out.Error, out.ErrorType = spec.StatusDeclined, r.Declined, fault.Gate
	case r.Cut != spec.SectionMain:
		out.Status, out.Error, out.ErrorType = spec.StatusCanceled, "canceled in "+string(r.Cut), fault.Canceled
	case r.Skipped != "":
		out.Status, out.Error = spec.StatusSkipped, r.Skipped
	}
	return out
}

// attemptOf labels an attempt in summaries: nothing for the first.
func attemptOf(n int) string {
	if n <= 1 {
		return ""
	}
	return " (attempt " + strconv.Itoa(n) + ")"
}

// dollars writes a sum to the cent.
func dollars(usd float64) string { return strconv.FormatFloat(usd, 'f', 2, 64) }
