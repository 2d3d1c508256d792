package workflows

import (
	"cmp"
	"time"

	"go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/sluiceml/sluice/activities/contract"
	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/fault"
	"github.com/sluiceml/sluice/store/record"
	"github.com/sluiceml/sluice/workflows/durable"
)

// execute makes one attempt.
func (j *job) execute(ctx workflow.Context, resolved contract.Resolved, end contract.StepEnd) (record.StepOutput, error) {
	kind := kindOf(j.node)
	summary := durable.Summary(string(j.node.Kind)+" "+j.in.ID()+attemptOf(j.state.Attempt), resolved.Summary)
	if kind.perform == nil {
		return j.callActivity(ctx, kind.activity, summary, resolved.Step, end)
	}
	if kind.rechecks && j.in.Instance == nil { // a run's lanes begin when all its records are durable
		if err := j.journal.sync(ctx); err != nil {
			return record.StepOutput{}, err
		}
	}
	j.journal.write(ctx) // no activity takes the ends along, and it may be long until one does
	return kind.perform(j, ctx, resolved, summary)
}

// roomTimeout limits how long a step waits for the limits that the environment sets for a worker.
const roomTimeout = 30 * 24 * time.Hour

// callActivity executes the step in an activity.
func (j *job) callActivity(
	ctx workflow.Context, name, summary string, in record.StepInput, end contract.StepEnd,
) (record.StepOutput, error) {
	timeout := j.timeout()
	if in.AttemptTimeout > 0 { // the activity itself bounds the attempt
		timeout += roomTimeout
	}
	ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		ActivityID:          contract.ActivityID(j.in.ID(), j.state.Attempt),
		StartToCloseTimeout: timeout,
		HeartbeatTimeout:    durable.HeartbeatTimeout,
		WaitForCancellation: true,
		RetryPolicy:         &temporal.RetryPolicy{MaximumAttempts: 1},
		Summary:             summary,
	})
	var done contract.Performed
	err := cancelable(ctx, name, j.task(ctx, in, end), &done)
	if durable.TimedOut(err) && !durable.WorkerLost(err) {
		err = late(j.timeout())
	}
	j.verdict = done.Verdict
	countRows(ctx, done.Rows)
	return done.StepOutput, err
}

// train runs a training, or another step on nodes of pools. The train workflow handles timeout and retries itself, because its next attempt
// resumes from the last checkpoint.
func (j *job) train(ctx workflow.Context, resolved contract.Resolved, summary string) (out record.StepOutput, err error) {
	in := contract.TrainInput{
		StepInput: resolved.Step, Retry: j.node.Retry, Timeout: cmp.Or(j.node.Timeout, j.node.Kind.DefaultTimeout()), BudgetUSD: j.budgetUSD, Unheard: j.in.Instance != nil,
	}
	err = j.child(ctx, contract.TrainWorkflow, contract.TrainWorkflowID(j.in.Run, j.in.ID()), contract.HostQueue, summary, in, &out)
	return out, err
}

// takeAccount moves the account that comes with the error of a step on nodes of pools out of the step's outputs, because it is not an
// output of the step's kind.
func (j *job) takeAccount(end *contract.StepEnd) {
	if j.node.OnPool {
		end.Output = record.StepOutput{Account: end.Output.Outputs}
	}
}

// rollOut runs a rollout. The workflow ID is that of the target, so that a target has one rollout at a time.
func (j *job) rollOut(ctx workflow.Context, resolved contract.Resolved, summary string) (out record.StepOutput, err error) {
	rollout, err := spec.Decode[spec.Rollout](resolved.Step.Spec)
	if err != nil {
		return out, err
	}
	err = j.within(ctx, func(ctx workflow.Context) error {
		in, queue := contract.RolloutInput{StepInput: resolved.Step}, contract.HostQueue
		if resolved.Step.AnyWorker {
			queue = contract.TaskQueue
		}
		return j.child(ctx, contract.RolloutWorkflow, contract.RolloutWorkflowID(rollout.Target), queue, summary, in, &out)
	})
	return out, err
}

// task returns the input of the step's activity. It names the run and its submission once.
func (j *job) task(ctx workflow.Context, in record.StepInput, end contract.StepEnd) contract.PerformInput {
	task := contract.PerformInput{StepInput: in, Ends: j.journal.takeUnwritten()}
	if j.journal == nil { // the record is waited for
		return task
	}
	end.Run, end.Submission, end.Kind, end.Status, end.Attempts = "", "", "", "", nil // known, or of no interest
	end.Error, end.ErrorType = "", ""                                                 // those of the attempt before
	for _, next := range j.follow(ctx) {
		next.Run, next.Submission = "", ""
		end.Next = append(end.Next, next)
	}
	task.End = &end
	return task
}

// cancelable runs an activity and cancels it with ctx, unless the activity ended at the same moment: the SDK would still ask Temporal to
// cancel an activity with an ID of its own, Temporal would reject that, and the workflow would be stuck (sdk-go#2512).
func cancelable(ctx workflow.Context, name string, in, out any) error {
	durable.Admit(ctx, in)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	apart, cancel := workflow.NewDisconnectedContext(ctx)
	done := workflow.ExecuteActivity(apart, name, in)
	workflow.NewSelector(ctx). // of what is ready it takes the first
					AddFuture(done, func(workflow.Future) {}).
					AddReceive(ctx.Done(), func(workflow.ReceiveChannel, bool) { cancel() }).
					Select(ctx)
	return done.Get(apart, out)
}

// runChild runs a child pipeline, which is a run with records of its own. A further attempt reuses what the previous one finished.
func (j *job) runChild(ctx workflow.Context, resolved contract.Resolved, summary string) (record.StepOutput, error) {
	var run contract.RunInput
	ask := contract.ChildInput{StepInput: resolved.Step, Attempt: j.state.Attempt, Reuse: j.in.Reuse, BudgetUSD: leftOf(j.budgetUSD, j.cost.USD)}
	if err := durable.Local(ctx, contract.ChildActivity, "submit "+j.in.ID(), ask, &run); err != nil {
		return record.StepOutput{}, err
	}
	var out record.RunOutput
	err := j.within(ctx, func(ctx workflow.Context) error {
		err := j.child(ctx, contract.PipelineWorkflow, contract.RunWorkflowID(run.Run), contract.TaskQueue, summary, run, &out)
		j.cost = j.cost.Add(fault.CostOf(err)).Add(fault.Costs{USD: out.CostUSD, Unknown: out.CostUnknown})
		return err
	})
	switch {
	case err != nil:
	case out.Status == spec.StatusDeclined:
		err = fault.New(fault.Declined, out.Error, nil)
	case out.Status == spec.StatusSkipped:
		err = fault.New(fault.TurnedAway, out.Error, nil)
	}
	return out.Outputs, err
}

// child runs a child workflow, on a task queue that its activities use too. The workflow ID is a lock: while another run holds it, this one
// waits.
func (j *job) child(ctx workflow.Context, name, id, queue, summary string, in, out any) error {
	j.state.Child = id
	durable.Admit(ctx, in)
	ctx = workflow.WithChildOptions(ctx, workflow.ChildWorkflowOptions{
		WorkflowID:            id,
		TaskQueue:             queue,
		WaitForCancellation:   true,
		ParentClosePolicy:     enums.PARENT_CLOSE_POLICY_REQUEST_CANCEL,
		WorkflowIDReusePolicy: enums.WORKFLOW_ID_REUSE_POLICY_ALLOW_DUPLICATE,
		StaticSummary:         summary,
		TypedSearchAttributes: temporal.NewSearchAttributes(
			temporal.NewSearchAttributeKeyKeyword(contract.SearchPipeline).ValueSet(j.pipeline),
			temporal.NewSearchAttributeKeyKeyword(contract.SearchStep).ValueSet(j.node.ID),
		),
	})
	start := func() workflow.ChildWorkflowFuture { return workflow.ExecuteChildWorkflow(ctx, name, in) }
	err := start().Get(ctx, out)
	if !isTaken(err) {
		return err
	}
	before := j.state.Summary
	j.state.Summary = "waiting: another run holds " + id
	child, err := j.turns.startWhenFree(ctx, id, start)
	if err != nil {
		return err
	}
	j.state.Summary = before
	return child.Get(ctx, out)
}

// within cancels f when the job's timeout, if it has one, expires. A child workflow then gets time to undo what it did.
func (j *job) within(ctx workflow.Context, f func(workflow.Context) error) error {
	timeout := j.timeout()
	if j.node.Timeout == 0 {
		return f(ctx)
	}
	ctx, cancel := workflow.WithCancel(ctx)
	defer cancel()
	isLate := false
	workflow.Go(ctx, func(ctx workflow.Context) {
		if durable.Sleep(ctx, timeout, "timeout of "+j.in.ID()) == nil {
			isLate = true
			cancel()
		}
	})
	err := f(ctx)
	if isLate && err != nil {
		return late(timeout)
	}
	return err
}

func late(timeout time.Duration) error {
	return fault.New(fault.Timeout, "it took longer than its timeout of "+spec.Duration(timeout).String(), nil)
}

// fail records the error of an attempt in the step's end.
func fail(ctx workflow.Context, end *contract.StepEnd, err error) {
	end.Status, end.Error, end.ErrorType = spec.StatusFailed, fault.Message(err), fault.TypeOf(err)
	if !kinds[end.Kind].failsEmpty {
		end.Output = record.StepOutput{Outputs: fault.Outputs(err)}
	}
	switch {
	case durable.WorkerLost(err):
		end.Error, end.ErrorType = "the worker that ran it stopped answering", fault.Infrastructure
	case ctx.Err() != nil:
		end.Status, end.Error, end.ErrorType = spec.StatusCanceled, "canceled", fault.Canceled
	case end.ErrorType == fault.Canceled:
		end.Error = "it was canceled, but its run was not"
	case end.ErrorType == fault.TurnedAway:
		end.Status = spec.StatusSkipped
	case end.ErrorType == fault.Declined:
		end.Status, end.ErrorType = spec.StatusDeclined, fault.Gate
	}
}
