package workflows

import (
	"errors"
	"time"

	"go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/sluiceml/sluice/activities/contract"
	"github.com/sluiceml/sluice/dsl"
)

const (
	// aliveEvery is how often a lock asks whether the run that holds it is still there. A run that ends gives its lock back itself;
	// one that was terminated cannot.
	aliveEvery = 15 * time.Second
	// turnEvery is how often a run that waits for a lock tries again, if nobody says that it is its turn.
	turnEvery = 30 * time.Second
)

// Lock is held by a run, for a concurrency group: its workflow ID is the group's, so that there is one. It ends when its run gives
// it back or is no more, and then tells the run that has waited longest.
func Lock(ctx workflow.Context, in contract.LockInput) error {
	l := &lock{in: in}
	free := false
	workflow.Go(ctx, func(ctx workflow.Context) {
		free = workflow.GetSignalChannel(ctx, contract.FreeSignal).Receive(ctx, nil)
	})
	l.listen(ctx)
	for !free {
		if _, err := workflow.AwaitWithTimeout(ctx, aliveEvery, func() bool { return free }); err != nil {
			break // cancelled by a person
		}
		if free || !l.alive(ctx) {
			break
		}
		if workflow.GetInfo(ctx).GetCurrentHistoryLength() >= longHistory {
			in.Waiting = l.in.Waiting
			return workflow.NewContinueAsNewError(ctx, contract.LockWorkflow, in)
		}
	}
	if len(l.in.Waiting) > 0 {
		workflow.SignalExternalWorkflow(ctx, contract.RunWorkflowID(l.in.Waiting[0]), "", contract.TurnSignal, nil)
	}
	return nil
}

// lock is the state of one lock workflow.
type lock struct{ in contract.LockInput }

// listen queues runs that wait, and cancels the holder when one of them will not.
func (l *lock) listen(ctx workflow.Context) {
	wanted := workflow.GetSignalChannel(ctx, contract.WantSignal)
	workflow.Go(ctx, func(ctx workflow.Context) {
		for {
			var want contract.Want
			if !wanted.Receive(ctx, &want) {
				return
			}
			l.in.Waiting = append(l.in.Waiting, want.Run)
			if want.Evict {
				workflow.RequestCancelExternalWorkflow(ctx, contract.RunWorkflowID(l.in.Run), "")
			}
		}
	})
}

// alive reports whether the holder is still there. When nobody can tell, it is.
func (l *lock) alive(ctx workflow.Context) bool {
	ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		StartToCloseTimeout: 10 * time.Second,
		RetryPolicy:         &temporal.RetryPolicy{MaximumAttempts: 1},
		Summary:             "is run " + l.in.Run + " still there?",
	})
	alive := true
	err := workflow.ExecuteActivity(ctx, contract.AliveActivity, l.in.Run).Get(ctx, &alive)
	return err != nil || alive
}

// enter takes the lock of the run's concurrency group. The run is over when out is not nil: another holds the group and it is not
// to wait, or it was cancelled while it waited.
func (r *run) enter(ctx workflow.Context) (out *contract.RunOutput, err error) {
	if r.begun.Concurrency.Group == "" {
		return nil, nil
	}
	turn := workflow.GetSignalChannel(ctx, contract.TurnSignal)
	for asked := false; ; {
		taken, err := r.lock(ctx)
		switch {
		case err != nil:
			return r.turnedAway(ctx, err)
		case !taken:
			return nil, nil
		case r.begun.Concurrency.OnConflict == dsl.OnConflictSkip:
			end := contract.RunOutput{Status: dsl.StatusSkipped, Error: "another run holds the group `" + r.begun.Concurrency.Group + "`"}
			return &end, r.close(ctx, &end)
		}
		if !asked {
			asked = true
			want := contract.Want{Run: r.in.Run, Evict: r.begun.Concurrency.OnConflict == dsl.OnConflictCancelOther}
			workflow.SignalExternalWorkflow(ctx, contract.LockWorkflowID(r.begun.Concurrency.Group), "", contract.WantSignal, want)
			workflow.SetCurrentDetails(ctx, "waits: another run holds the group `"+r.begun.Concurrency.Group+"`")
		}
		workflow.NewSelector(ctx).
			AddReceive(turn, func(c workflow.ReceiveChannel, _ bool) { c.Receive(ctx, nil); asked = false }).
			AddFuture(workflow.NewTimer(ctx, turnEvery), func(workflow.Future) {}).
			Select(ctx)
	}
}

// turnedAway ends a run that was cancelled while it waited.
func (r *run) turnedAway(ctx workflow.Context, err error) (*contract.RunOutput, error) {
	out := r.outcome(ctx)
	if !r.isCanceled(ctx) {
		out = contract.RunOutput{Status: dsl.StatusFailed, Error: contract.Message(err), ErrorType: contract.ErrorType(err)}
	}
	closing, _ := workflow.NewDisconnectedContext(ctx)
	return &out, errors.Join(err, r.close(closing, &out))
}

// lock tries to start the group's lock workflow; taken is true when another run has.
func (r *run) lock(ctx workflow.Context) (taken bool, err error) {
	if ctx.Err() != nil {
		return false, ctx.Err()
	}
	ctx = workflow.WithChildOptions(ctx, workflow.ChildWorkflowOptions{
		WorkflowID:        contract.LockWorkflowID(r.begun.Concurrency.Group),
		ParentClosePolicy: enums.PARENT_CLOSE_POLICY_ABANDON, // a run's next history must find it
		StaticSummary:     "concurrency group " + r.begun.Concurrency.Group,
	})
	in := contract.LockInput{Group: r.begun.Concurrency.Group, Run: r.in.Run}
	err = workflow.ExecuteChildWorkflow(ctx, contract.LockWorkflow, in).GetChildWorkflowExecution().Get(ctx, nil)
	var other *temporal.ChildWorkflowExecutionAlreadyStartedError
	if errors.As(err, &other) {
		return true, nil
	}
	return false, err
}

// leave gives the lock back.
func (r *run) leave(ctx workflow.Context) {
	if r.begun.Concurrency.Group != "" {
		workflow.SignalExternalWorkflow(ctx, contract.LockWorkflowID(r.begun.Concurrency.Group), "", contract.FreeSignal, nil)
	}
}
