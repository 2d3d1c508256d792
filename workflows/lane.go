package workflows

import (
	"fmt"
	"slices"
	"time"

	"go.temporal.io/sdk/workflow"

	"github.com/sluiceml/sluice/activities/contract"
	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/store/record"
	"github.com/sluiceml/sluice/workflows/durable"
)

const (
	// laneWindow is how many instances a lane runs at once; more are spread over further lanes.
	laneWindow = 64
	// tellEvery is the minimum interval at which a lane reports the number of ended instances to its run, and tells is about how often all
	// lanes of a step report together: these reports are in the history of the run, which cannot continue as new while lanes run.
	tellEvery = 5 * time.Second
	tells     = 20
)

// Lane executes a share of a step's instances, up to Window of them at once, and the iterations of a repeated step one after the other.
func Lane(ctx workflow.Context, in contract.LaneInput) (contract.LaneOutput, error) {
	ctx = durable.Measured(ctx)
	l := &lane{
		in: in, out: in.Done, drain: workflow.GetSignalChannel(ctx, contract.DrainSignal),
		journal: journal{run: in.Run}, turns: turns{}, resolved: map[int]*contract.Resolved{},
	}
	if err := workflow.SetQueryHandler(ctx, contract.StateQuery, l.query); err != nil {
		return l.out, err
	}
	for range in.Window {
		l.workers++
		workflow.Go(ctx, l.work)
	}
	watching, _ := workflow.NewDisconnectedContext(ctx)
	if err := workflow.Await(watching, func() bool { return l.workers == 0 }); err != nil {
		return l.out, err
	}
	if err := l.journal.sync(ctx); err != nil {
		return l.out, err
	}
	l.in.Left = append(l.in.Left, l.resolving...)
	if l.more(ctx) { // only a long history kept the workers from it
		l.in.Done = l.out
		return l.out, workflow.NewContinueAsNewError(ctx, contract.LaneWorkflow, l.in)
	}
	return l.out, nil
}

// lane is the state of one lane workflow.
type lane struct {
	in       contract.LaneInput
	out      contract.LaneOutput
	workers  int
	running  []*contract.StepState
	drain    workflow.ReceiveChannel // hears when the run wants no further instances
	draining bool
	journal  journal
	turns    turns
	// resolving are instances that are being resolved ahead of their turn; resolved has the results, nil for those that failed.
	resolving []int
	resolved  map[int]*contract.Resolved
}

func (l *lane) query() (contract.RunState, error) {
	s := contract.RunState{Status: spec.StatusRunning}
	for _, state := range l.running {
		s.Steps = append(s.Steps, *state)
	}
	return s, nil
}

// more reports whether there are instances left to start.
func (l *lane) more(ctx workflow.Context) bool {
	l.draining = l.drain.ReceiveAsync(nil) || l.draining
	return (l.in.Next < l.in.To || len(l.in.Left)+len(l.resolving) > 0) && !l.draining && !l.out.Satisfied && l.out.Failed <= l.in.Allowed &&
		!usesUp(l.in.BudgetUSD, l.out.CostUSD) && ctx.Err() == nil
}

// take returns the next instance to execute: first one that is being resolved, then one that has not been looked at.
func (l *lane) take() (index int) {
	known := slices.IndexFunc(l.resolving, func(i int) bool {
		_, over := l.resolved[i]
		return over
	})
	switch {
	case known < 0 && len(l.in.Left) > 0:
		index, l.in.Left = l.in.Left[0], l.in.Left[1:]
	case known < 0 && l.in.Next < l.in.To:
		index = l.in.Next
		l.in.Next++
	default: // when there are no others, one that is still being resolved
		known = max(known, 0)
		index = l.resolving[known]
		l.resolving = slices.Delete(l.resolving, known, known+1)
	}
	return index
}

// resolveNext returns an instance to resolve together with the verdict of another. The first free worker coroutine executes it.
func (l *lane) resolveNext(ctx workflow.Context) []contract.ResolveInput {
	if !l.goesOn(ctx) || l.in.Next >= l.in.To {
		return nil
	}
	index := l.in.Next
	l.in.Next++
	l.resolving = append(l.resolving, index)
	return []contract.ResolveInput{l.about(ctx, index)}
}

// ahead stores the resolved spec of an instance, unless the instance has already been started.
func (l *lane) ahead(steps []contract.ResolveInput, resolved []*contract.Resolved) {
	for n, step := range steps {
		if index := step.Instance.Index; slices.Contains(l.resolving, index) {
			l.resolved[index] = nil
			if n < len(resolved) {
				l.resolved[index] = resolved[n]
			}
		}
	}
}

// goesOn reports whether this history may start another instance.
func (l *lane) goesOn(ctx workflow.Context) bool {
	return l.more(ctx) && !durable.IsLong(ctx)
}

// work executes one instance after the other.
func (l *lane) work(ctx workflow.Context) {
	for l.goesOn(ctx) {
		if verdict := l.instance(ctx, l.take()); verdict.Status != "" {
			l.count(ctx, verdict)
		}
	}
	if l.workers--; l.workers > 0 {
		l.journal.write(ctx) // those of the others may take long
	}
}

// about names an instance to the engine's activities.
func (l *lane) about(ctx workflow.Context, index int) contract.ResolveInput {
	in := l.in.ResolveInput
	in.Instance = &record.Instance{Index: index, List: l.in.List}
	in.Now = workflow.Now(ctx)
	return in
}

// instance executes one instance. A postponed instance has no status, and is left to the next history.
func (l *lane) instance(ctx workflow.Context, index int) contract.StepVerdict {
	in := l.about(ctx, index)
	state := &contract.StepState{ID: in.ID(), Kind: l.in.Node.Kind, Status: spec.StatusRunning, StartedAt: in.Now}
	l.running = append(l.running, state)
	j := &job{
		in: in, pipeline: l.in.Pipeline, node: l.in.Node, state: state, show: func(workflow.Context) {}, turns: l.turns,
		budgetUSD: leftOf(l.in.BudgetUSD, l.out.CostUSD), tries: l.in.Tries[index],
		held: func(ctx workflow.Context, _ *contract.ApprovalInput) {
			if slices.ContainsFunc(l.running, func(s *contract.StepState) bool { return s != state && s.Status == spec.StatusHold }) {
				return // whoever decides on the others sees this one, too
			}
			durable.Tell(ctx, contract.Note{Step: l.in.Step, Text: in.ID() + " is waiting for a decision", Event: spec.EventHold})
		},
	}
	if l.in.Node.Fan != spec.FanRepeat { // an iteration reads the record of the one before
		j.resolved, j.journal, j.next, j.ahead = l.resolved[index], &l.journal, l.resolveNext, l.ahead
		delete(l.resolved, index)
	}
	delete(l.in.Tries, index)
	verdict := j.do(ctx)
	if j.postponed {
		if l.in.Tries == nil {
			l.in.Tries = map[int]contract.Tries{}
		}
		l.in.Tries[index], l.in.Left = j.tries, append(l.in.Left, index)
	}
	l.running = slices.DeleteFunc(l.running, func(s *contract.StepState) bool { return s == state })
	return verdict
}

// count adds an instance's end.
func (l *lane) count(ctx workflow.Context, verdict contract.StepVerdict) {
	l.out.CostUSD += verdict.CostUSD
	l.out.CostUnknown = l.out.CostUnknown || verdict.CostUnknown
	switch end, _ := spec.EndOf(verdict.Status, verdict.ErrorType); end.Instance {
	case spec.CountPassed:
		l.out.Passed++
		l.out.Satisfied = verdict.Done
	case spec.CountCanceled:
		l.out.Canceled++
	case spec.CountLeftOut:
		l.out = l.out.Add(contract.LaneOutput{LeftOut: 1, LeftOutWhy: verdict.Error})
	case spec.CountFailed:
		one := contract.LaneOutput{Failed: 1, Error: verdict.Error, ErrorType: verdict.ErrorType, Declined: verdict.Status == spec.StatusDeclined}
		if rolledBack(l.in.Node, verdict) {
			one.RolledBack = verdict.Error
		}
		l.out = l.out.Add(one)
	}
	l.in.Untold++
	l.report(ctx)
}

// report tells the run from time to time how many instances have ended.
func (l *lane) report(ctx workflow.Context) {
	now := workflow.Now(ctx)
	if l.in.Untold < l.in.Every || now.Sub(l.in.ToldAt) < tellEvery {
		return
	}
	text := ""
	if l.out.Failed > 0 {
		text = fmt.Sprintf("%d failed", l.out.Failed)
	}
	durable.Tell(ctx, contract.Note{Step: l.in.Step, Done: l.in.Untold, Text: text})
	l.in.Untold, l.in.ToldAt = 0, now
}
