package workflows

import (
	"cmp"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/sluiceml/sluice/activities/contract"
	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/artifact"
	"github.com/sluiceml/sluice/internal/fault"
	"github.com/sluiceml/sluice/store/record"
	"github.com/sluiceml/sluice/workflows/durable"
)

// maxInFlight is how many steps of a run are executed at once. It limits how much a history grows after it has stopped starting new steps.
const maxInFlight = 100

// weight is the number of slots that a step takes, by what it adds to the history while it runs: its lanes start, report their progress and
// end.
func weight(node spec.Node) int {
	if node.Fan == spec.FanNone {
		return 1
	}
	return 6 + lanesOf(parallelOf(node))
}

// walk executes the steps of a section: each starts when the steps that it needs have ended, in parallel with whatever else is ready. It
// returns when all have ended, or when the history is long and nothing is running; r.ready then has the steps that are left.
func (r *run) walk(ctx workflow.Context, section spec.Section) {
	r.section = section
	for i, node := range r.in.Graph {
		if node.Section == section && r.waiting[i] == 0 && !r.Steps[i].Status.IsEnd() {
			r.ready = append(r.ready, i)
		}
	}
	r.startReady(ctx)
	watching, _ := workflow.NewDisconnectedContext(ctx)
	_ = workflow.Await(watching, func() bool { return r.inFlight == 0 }) // it fails only when its context ends, which this one does not
	r.sync(ctx)
}

// omit ends a section that is not needed, or begins to; r.ready then has the steps to continue with.
func (r *run) omit(ctx workflow.Context, section spec.Section) {
	for i, node := range r.in.Graph {
		if node.Section == section && !r.Steps[i].Status.IsEnd() {
			if durable.IsLong(ctx) {
				r.ready = append(r.ready, i)
				r.sync(ctx)
				return
			}
			r.end(ctx, i, spec.StatusSkipped, "nothing failed", "")
		}
	}
}

// end ends a step without executing it.
func (r *run) end(ctx workflow.Context, i int, status spec.Status, message, errType string) {
	j := r.job(ctx, i)
	end := contract.StepEnd{
		StepRef: j.in.StepRef, RunContext: j.in.RunContext, Kind: j.node.Kind, Status: status, Error: message, ErrorType: errType,
		Attempts: j.tries.Attempts,
	}
	r.setVerdict(ctx, i, j.conclude(ctx, end))
}

// startReady starts the steps that are ready, each in a coroutine of its own, and reports whether there were any.
func (r *run) startReady(ctx workflow.Context) (started bool) {
	for len(r.ready) > 0 && (r.stays || !durable.IsLong(ctx)) {
		i := r.ready[0]
		weighs := weight(r.in.Graph[i])
		if r.inFlight > 0 && r.inFlight+weighs > maxInFlight {
			return started
		}
		started = true
		r.ready = r.ready[1:]
		r.inFlight += weighs
		workflow.GoNamed(ctx, r.in.Graph[i].ID, func(ctx workflow.Context) {
			if over := r.step(ctx, i); over {
				r.release(i)
			} else {
				r.ready = append(r.ready, i)
			}
			r.inFlight -= weighs
			if started := r.startReady(ctx); !started && r.inFlight > 0 {
				r.journal.write(ctx) // nothing that comes soon would
			}
		})
	}
	return started
}

// release makes the steps ready that only waited for step i.
func (r *run) release(i int) {
	for _, reader := range r.readers[i] {
		if r.waiting[reader]--; r.waiting[reader] == 0 && r.in.Graph[reader].Section == r.section {
			r.ready = append(r.ready, reader)
		}
	}
}

// step executes one step from pending to its end, unless it is postponed to the next history.
func (r *run) step(ctx workflow.Context, i int) (over bool) {
	node := r.in.Graph[i]
	if status := r.readiness(ctx, node); status != spec.StatusPending {
		message, errType := r.skipReason(ctx, node, status)
		r.end(ctx, i, status, message, errType)
		return true
	}
	j := r.job(ctx, i)
	j.state.Status = spec.StatusRunning
	r.show(ctx, true)
	if node.Fan != spec.FanNone {
		r.setVerdict(ctx, i, r.fan(ctx, i, j.in))
		return true
	}
	verdict := j.do(ctx)
	if j.postponed {
		j.state.Status, r.Tries[node.ID] = spec.StatusPending, j.tries
		return false
	}
	delete(r.Tries, node.ID)
	r.setVerdict(ctx, i, verdict)
	return true
}

// about identifies step i in calls of the engine's activities.
func (r *run) about(ctx workflow.Context, i int) contract.ResolveInput {
	node := r.in.Graph[i]
	return contract.ResolveInput{
		StepRef:    record.StepRef{Run: r.in.Run, Submission: r.in.Submission, Step: node.ID, Now: workflow.Now(ctx)},
		Reuse:      r.in.Reuse,
		RunContext: r.situation(ctx, node.Section),
	}
}

// maxAhead limits how many steps are resolved together with the verdict of one.
const maxAhead = 4

// next lists the steps that only wait for the success of step i. Resolving them together with its verdict saves a local activity for each,
// which is half of the local activities of a chain.
func (r *run) next(ctx workflow.Context, i int) []contract.ResolveInput {
	node := r.in.Graph[i]
	if kindOf(node).costsAtEnd || r.isCanceled(ctx) || ctx.Err() != nil {
		return nil
	}
	var steps []contract.ResolveInput
	for _, reader := range r.readers[i] {
		if len(steps) < maxAhead && r.waiting[reader] == 1 && r.wouldStart(reader, node.ID) {
			steps = append(steps, r.about(ctx, reader))
		}
	}
	return steps
}

// wouldStart reports whether a step would start once the one that it still waits for has succeeded.
func (r *run) wouldStart(reader int, last string) bool {
	node := r.in.Graph[reader]
	if node.Section != r.section || node.Fan != spec.FanNone || node.Needs[last] == spec.NeedFailed {
		return false
	}
	for _, id := range node.After {
		if id != last && r.met(node, id) != spec.StatusPending {
			return false
		}
	}
	return true
}

// ahead stores steps that were resolved before their start, unless what they can read about the run has changed since.
func (r *run) ahead(ctx workflow.Context, steps []contract.ResolveInput, resolved []*contract.Resolved) {
	for n, found := range resolved { // none, when the step did not succeed
		now, then := r.situation(ctx, r.section), steps[n].RunContext
		if found != nil && now.CostUSD == then.CostUSD && now.CostUnknown == then.CostUnknown && now.Status == then.Status && len(now.Failed) == len(then.Failed) {
			r.resolved[r.index[steps[n].Step]] = found
		}
	}
}

// job creates the execution of step i.
func (r *run) job(ctx workflow.Context, i int) *job {
	node, state := r.in.Graph[i], &r.Steps[i]
	state.StartedAt = workflow.Now(ctx)
	defer delete(r.resolved, i)
	return &job{
		in:       r.about(ctx, i),
		pipeline: r.in.Name, node: node, state: state, budgetUSD: r.left(),
		show: func(ctx workflow.Context) { r.show(ctx, true) },
		held: func(ctx workflow.Context, q *contract.ApprovalInput) {
			r.notify(ctx, spec.EventHold, node.ID+": "+q.Question())
		},
		resolved: r.resolved[i],
		next:     func(ctx workflow.Context) []contract.ResolveInput { return r.next(ctx, i) },
		ahead: func(steps []contract.ResolveInput, resolved []*contract.Resolved) {
			r.ahead(ctx, steps, resolved)
		},
		journal: &r.journal,
		turns:   r.turns,
		tries:   r.Tries[node.ID],
	}
}

// setVerdict ends a step.
func (r *run) setVerdict(ctx workflow.Context, i int, verdict contract.StepVerdict) {
	state := &r.Steps[i]
	state.Status, state.Summary, state.EndedAt = verdict.Status, verdict.Summary, workflow.Now(ctx)
	if verdict.Error != "" {
		state.Summary = verdict.Error
	}
	if end, _ := spec.EndOf(verdict.Status, verdict.ErrorType); end.Rank > 0 && !r.in.Graph[i].ContinueOnError {
		switch said := state.ID + ": " + verdict.Error; end.Run {
		case spec.StatusFailed:
			r.Failed = append(r.Failed, spec.FailedStep{Step: state.ID, Error: verdict.Error, Type: verdict.ErrorType})
		case spec.StatusDeclined:
			r.Declined = cmp.Or(r.Declined, said)
		case spec.StatusSkipped:
			r.Skipped = cmp.Or(r.Skipped, said)
		default:
		}
	}
	if node := r.in.Graph[i]; rolledBack(node, verdict) && node.Fan == spec.FanNone { // instances: see fan
		r.RolledBack = true
		r.notify(ctx, spec.EventRollback, state.ID+": "+verdict.Error)
	}
	r.charge(fault.Costs{USD: verdict.CostUSD, Unknown: verdict.CostUnknown})
	if verdict.ErrorType == fault.Budget && !r.OverBudget && r.hasSpent() {
		r.stopOverBudget() // a step that was given what is left has spent it; that of a child run may be its own budget
	}
	r.label(ctx, verdict)
	r.show(ctx, false)
}

// rolledBack reports whether a release was rolled back when a step, or an instance, ended.
func rolledBack(node spec.Node, verdict contract.StepVerdict) bool {
	return verdict.Status == spec.StatusFailed && kinds[node.Kind].rollsBack && verdict.ErrorType == fault.Gate
}

// label lets people find the run in Temporal by what it published.
func (r *run) label(ctx workflow.Context, verdict contract.StepVerdict) {
	for _, v := range verdict.Published {
		key, names := contract.SearchDataset, &r.Datasets
		if v.Type == artifact.Model {
			key, names = contract.SearchModel, &r.Models
		}
		*names = addLabel(*names, v.Name)
		attribute := temporal.NewSearchAttributeKeyKeywordList(key).ValueSet(*names)
		if err := workflow.UpsertTypedSearchAttributes(ctx, attribute); err != nil {
			workflow.GetLogger(ctx).Warn("a search attribute was not set", "attribute", key, "error", err)
		}
	}
}

// readiness returns pending if a step may run, or else the status with which it ends without running.
func (r *run) readiness(ctx workflow.Context, node spec.Node) spec.Status {
	if r.Unbegun != nil {
		return spec.EndOfRun(r.Unbegun.Status, r.Unbegun.ErrorType).Unbegun
	}
	if ctx.Err() != nil || node.Section == spec.SectionMain && r.isCanceled(ctx) {
		return spec.StatusCanceled
	}
	verdict := spec.StatusPending
	for _, id := range node.After {
		switch r.met(node, id) {
		case spec.StatusUpstream:
			return spec.StatusUpstream
		case spec.StatusSkipped:
			verdict = spec.StatusSkipped
		default:
		}
	}
	return verdict
}

// met returns what a need makes of the end of another step: pending (the step may run), skipped or upstream.
func (r *run) met(node spec.Node, id string) spec.Status {
	up := r.index[id]
	status, forgiven := r.Steps[up].Status, r.in.Graph[up].ContinueOnError
	return node.Needs[id].Met(status, forgiven)
}

// skipReason says why node does not run.
func (r *run) skipReason(ctx workflow.Context, node spec.Node, status spec.Status) (message, errType string) {
	switch {
	case r.Unbegun != nil && status == spec.StatusCanceled:
		return "not run: " + r.Unbegun.Error, fault.Canceled
	case r.Unbegun != nil:
		return "not run: " + r.Unbegun.Error, ""
	case status == spec.StatusCanceled && node.Section != spec.SectionMain:
		return "not run: canceled", fault.Canceled
	case status == spec.StatusCanceled:
		out := r.outcome(ctx)
		return "not run: " + out.Error, out.ErrorType
	}
	for _, id := range node.After {
		if r.met(node, id) != spec.StatusPending {
			ended := "ended as " + string(r.Steps[r.index[id]].Status)
			if r.Steps[r.index[id]].Status == spec.StatusUpstream {
				ended = "was not run either"
			}
			return "not run: it needs `" + id + ": " + string(node.Needs[id]) + "`, but `" + id + "` " + ended, ""
		}
	}
	return "not run", ""
}
