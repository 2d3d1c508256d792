package workflows

import (
	"fmt"
	"math"
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/sluiceml/sluice/activities/contract"
	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/fault"
	"github.com/sluiceml/sluice/workflows/durable"
)

// fan executes a step with instances: it expands them, divides them among lanes and collects the results.
func (r *run) fan(ctx workflow.Context, i int, in contract.ResolveInput) contract.StepVerdict {
	node := r.in.Graph[i]
	end := contract.GatherInput{
		StepEnd: contract.StepEnd{StepRef: in.StepRef, RunContext: in.RunContext, Kind: node.Kind, Status: spec.StatusSucceeded},
		Fan:     node.Fan, Require: node.Require,
	}
	var all contract.Expanded
	err := r.journal.sync(ctx) // lanes cannot make records again
	if err == nil {
		err = durable.Local(ctx, contract.ExpandActivity, "expand "+node.ID, in, &all)
	}
	if err != nil {
		fail(ctx, &end.StepEnd, err)
		return r.gather(ctx, end)
	}
	if all.Skip != "" {
		end.Status, end.Error = spec.StatusSkipped, all.Skip
		return r.gather(ctx, end)
	}
	end.List, end.Of = all.List, all.Of
	r.Steps[i].Of = all.Of
	r.show(ctx, true)
	done := r.lanes(ctx, i, in, all)
	end.CostUSD, end.CostUnknown = done.CostUSD, done.CostUnknown
	if done.RolledBack != "" {
		r.RolledBack = true
		r.notify(ctx, spec.EventRollback, node.ID+": "+done.RolledBack)
	}
	if node.Fan == spec.FanRepeat {
		end.Of = min(all.Of, done.Passed+done.Failed+done.Canceled)
	}
	switch allowed := allowedFailures(node, all.Of); {
	case ctx.Err() != nil:
		end.Status, end.Error, end.ErrorType = spec.StatusCanceled, "canceled", fault.Canceled
	case done.LeftOut > 0 && done.Failed <= allowed:
		end.Status = spec.StatusSkipped
		end.Error = fmt.Sprintf("%d of its %d instances did not run, the first because: %s", done.LeftOut, all.Of, done.LeftOutWhy)
	case done.Failed > allowed:
		end.Status, end.Error, end.ErrorType = done.Worst(), done.Error, done.ErrorType
		if all.Of > 1 {
			end.Error = fmt.Sprintf("%d of %d failed, the first with: %s", done.Failed, all.Of, done.Error)
		}
	case usesUp(r.left(), done.CostUSD):
		end.Status, end.Error, end.ErrorType = spec.StatusCanceled, "the run's budget is exhausted", fault.Budget
	case stopped(node, all.Of, done) > allowed:
		end.Status, end.ErrorType = spec.StatusFailed, fault.Canceled
		end.Error = fmt.Sprintf("%d of %d were canceled, but the run was not", stopped(node, all.Of, done), all.Of)
	case node.Fan == spec.FanRepeat && !done.Satisfied:
		end.Status, end.ErrorType = spec.StatusFailed, fault.Gate
		end.Error = fmt.Sprintf("`until` did not hold after %d iterations", done.Passed)
	}
	verdict := r.gather(ctx, end)
	verdict.CostUSD, verdict.CostUnknown = max(verdict.CostUSD, done.CostUSD), verdict.CostUnknown || done.CostUnknown
	return verdict
}

// stopped returns the number of instances that neither passed nor failed because their lane was canceled.
func stopped(node spec.Node, of int, done contract.LaneOutput) int {
	if node.Fan == spec.FanRepeat {
		return done.Canceled // those that were not begun may not be needed
	}
	return of - done.Passed - done.Failed
}

// allowedFailures is how many of a step's instances may fail.
func allowedFailures(node spec.Node, of int) int {
	if node.Fan == spec.FanRepeat {
		return 0
	}
	return of - int(math.Ceil(float64(node.Require)*float64(of)-1e-9))
}

// parallelOf is how many instances of a step run at once, and lanesOf in how many lanes.
func parallelOf(node spec.Node) int {
	switch {
	case node.Fan == spec.FanRepeat:
		return 1
	case node.MaxParallel == 0:
		return spec.DefaultParallel
	}
	return node.MaxParallel
}

func lanesOf(parallel int) int { return (parallel + laneWindow - 1) / laneWindow }

// lanes divides the instances among lanes and adds up their results. When too many instances have failed, or the budget is spent, no lane
// starts further ones.
func (r *run) lanes(ctx workflow.Context, i int, in contract.ResolveInput, all contract.Expanded) contract.LaneOutput {
	node := r.in.Graph[i]
	parallel := min(parallelOf(node), all.Of)
	lanes := lanesOf(parallel)
	results := workflow.NewBufferedChannel(ctx, lanes)
	for n := range lanes {
		lane := contract.LaneInput{
			ResolveInput: in, Pipeline: r.in.Name, Node: node, List: all.List, BudgetUSD: r.left(),
			Next: n * all.Of / lanes, To: (n + 1) * all.Of / lanes,
			Window:  (n+1)*parallel/lanes - n*parallel/lanes,
			Allowed: allowedFailures(node, all.Of), Every: max(1, all.Of/tells),
		}
		workflow.Go(ctx, func(ctx workflow.Context) { results.Send(ctx, r.lane(ctx, i, n, lane)) })
	}
	var sum contract.LaneOutput
	drained := false
	waiting, _ := workflow.NewDisconnectedContext(ctx)
	for range lanes {
		var one contract.LaneOutput
		results.Receive(waiting, &one)
		sum = sum.Add(one)
		if enough := sum.Failed > allowedFailures(node, all.Of) || usesUp(r.left(), sum.CostUSD); !enough || drained {
			continue
		}
		drained = true
		for n := range lanes {
			workflow.SignalExternalWorkflow(ctx, contract.LaneWorkflowID(r.in.Run, node.ID, n), "", contract.DrainSignal, nil)
		}
	}
	return sum
}

// usesUp reports whether a cost uses up the rest of a budget. left is 0 if there is no budget.
func usesUp(left, usd float64) bool { return left > 0 && usd >= left }

func (r *run) lane(ctx workflow.Context, i, n int, in contract.LaneInput) contract.LaneOutput {
	j := &job{in: in.ResolveInput, pipeline: r.in.Name, node: in.Node, state: &r.Steps[i], turns: r.turns}
	var out contract.LaneOutput
	id := contract.LaneWorkflowID(r.in.Run, in.Node.ID, n)
	summary := fmt.Sprintf("%s: instances %d to %d", in.Node.ID, in.Next, in.To-1)
	if err := j.child(ctx, contract.LaneWorkflow, id, contract.TaskQueue, summary, in, &out); err != nil && ctx.Err() == nil {
		lost := 1
		if in.Node.Fan != spec.FanRepeat {
			lost = in.To - in.Next // what passed in it is not known
		}
		out = contract.LaneOutput{Failed: lost, Error: fault.Message(err), ErrorType: fault.TypeOf(err)}
	}
	return out
}

// gather builds the step's result from the records of its instances. It reads one record per instance, so it is not a local activity.
func (r *run) gather(ctx workflow.Context, end contract.GatherInput) contract.StepVerdict {
	ctx, _ = workflow.NewDisconnectedContext(ctx)
	end.EndedAt = workflow.Now(ctx)
	ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		StartToCloseTimeout: 10 * time.Minute,
		HeartbeatTimeout:    durable.HeartbeatTimeout,
		RetryPolicy: &temporal.RetryPolicy{
			InitialInterval: 100 * time.Millisecond, MaximumAttempts: durable.LostWorkers, NonRetryableErrorTypes: []string{fault.Invalid},
		},
		Summary: "gather " + end.Step,
	})
	var verdict contract.StepVerdict
	if err := workflow.ExecuteActivity(ctx, contract.GatherActivity, end).Get(ctx, &verdict); err != nil {
		verdict = contract.StepVerdict{Status: spec.StatusFailed, Error: fault.Message(err), ErrorType: fault.TypeOf(err)}
	}
	concludeStep(ctx, end.Step, verdict)
	return verdict
}
