package workflows

import (
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

// A run that waits for a lock is notified when it is its turn. In addition it asks again, after firstAsk and then at growing intervals up
// to lastAsk, because a person may have terminated the lock.
const firstAsk, lastAsk = 30 * time.Second, 10 * time.Minute

// acquireGroup takes the lock of the run's concurrency group. It sets r.Unbegun if this run never gets its turn: another run holds the group
// and this one does not wait or is its child, or this one was canceled while it waited. long means that it must continue to wait in
// a new history.
func (r *run) acquireGroup(ctx workflow.Context) (long bool) {
	group := r.Begin.Concurrency.Group
	if group == "" {
		return false
	}
	defer func() { r.waits = "" }()
	for pause := firstAsk; ; pause = min(2*pause, lastAsk) {
		taken, err := r.lock(ctx)
		held, by := !taken, ""
		if err == nil && taken {
			r.waits = "another run holds the group `" + group + "`"
			workflow.SetCurrentDetails(ctx, "waiting: "+r.waits)
			held, by, err = r.queue(ctx, pause)
			if long = err == nil && !held && by == "" && ctx.Err() == nil && durable.IsLong(ctx); long {
				held, by = r.answer(ctx)
			}
		}
		switch {
		case err != nil:
			r.reject(ctx, err)
		case held:
			r.settle(ctx)
		case by != "" && r.isChild(ctx) && contract.Within(r.in.Run, by):
			r.reject(ctx, fault.New(fault.Invalid, "run "+by+" holds the concurrency group `"+group+
				"` and waits for this run, its child, which would never start: remove the child's group, or give it another one", nil))
		case by != "":
			r.Unbegun = &record.RunOutput{Status: spec.StatusSkipped, Error: "run " + by + " holds the group `" + group + "`", GaveWayTo: by}
		case long:
			return true
		default:
			continue
		}
		return false
	}
}

// settle has the run read what others have done, now that it has its turn.
func (r *run) settle(ctx workflow.Context) {
	in := contract.SettleInput{Run: r.in.Run, Submission: r.in.Submission}
	if err := durable.Local(ctx, contract.SettleActivity, "read the runs before", in, nil); err != nil {
		r.reject(ctx, err)
	}
}

// lock tries to start the group's lock workflow. taken is true if one is already running.
func (r *run) lock(ctx workflow.Context) (taken bool, err error) {
	if ctx.Err() != nil {
		return false, ctx.Err()
	}
	own, _ := workflow.NewDisconnectedContext(ctx) // a cancel of this run must not end the lock: others wait for it
	ctx = workflow.WithChildOptions(own, workflow.ChildWorkflowOptions{
		WorkflowID:        contract.LockWorkflowID(r.Begin.Concurrency.Group),
		ParentClosePolicy: enums.PARENT_CLOSE_POLICY_ABANDON, // other runs wait for it
		StaticSummary:     "concurrency group " + r.Begin.Concurrency.Group,
	})
	in := contract.LockInput{Group: r.Begin.Concurrency.Group, Run: r.in.Run}
	err = workflow.ExecuteChildWorkflow(ctx, contract.LockWorkflow, in).GetChildWorkflowExecution().Get(ctx, nil)
	if isTaken(err) {
		return true, nil
	}
	return false, err
}

// isChild reports whether another run waits for this one. The watch that starts runs of a trigger does not wait for them.
func (r *run) isChild(ctx workflow.Context) bool {
	return workflow.GetInfo(ctx).ParentWorkflowExecution != nil && r.in.Trigger.Name == ""
}

// deadlocks is an error if the run would wait for a run that in turn waits for a group of the runs above this one. The run is in the queue already,
// so that of several runs in such a circle the last one finds it.
func (r *run) deadlocks(ctx workflow.Context) error {
	group := r.Begin.Concurrency.Group
	ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		StartToCloseTimeout: 30 * time.Second,
		RetryPolicy:         &temporal.RetryPolicy{MaximumAttempts: 3},
		Summary:             "would it wait forever for the group " + group + "?",
	})
	why := ""
	in := contract.DeadlockInput{Run: r.in.Run, Group: group}
	if err := workflow.ExecuteActivity(ctx, contract.DeadlockActivity, in).Get(ctx, &why); err != nil || why == "" {
		return nil //nolint:nilerr // it is asked again when the run asks again for a turn
	}
	return fault.New(fault.Invalid, why, nil)
}

// evictedBy returns the run of the concurrency group for which the lock canceled this one, if it did.
func (r *run) evictedBy(ctx workflow.Context) string {
	workflow.GetSignalChannel(ctx, contract.EvictedSignal).ReceiveAsync(&r.GaveWayTo)
	return r.GaveWayTo
}

// answer reads an answer of the lock that arrived at the last moment, which a new history would not receive.
func (*run) answer(ctx workflow.Context) (held bool, by string) {
	workflow.GetSignalChannel(ctx, contract.TakenSignal).ReceiveAsync(&by)
	return workflow.GetSignalChannel(ctx, contract.TurnSignal).ReceiveAsync(nil), by
}

// queue requests the lock and waits for its turn. held is false if the pause has passed or the lock has ended meanwhile; by is the run that
// holds the lock if this run will not get a turn.
func (r *run) queue(ctx workflow.Context, pause time.Duration) (held bool, by string, err error) {
	conflict := r.Begin.Concurrency.OnConflict
	want := contract.LockRequest{
		Run: r.in.Run, Evict: conflict == spec.OnConflictCancelOther, Skip: conflict == spec.OnConflictSkip, Child: r.isChild(ctx),
	}
	id := contract.LockWorkflowID(r.Begin.Concurrency.Group)
	if err := workflow.SignalExternalWorkflow(ctx, id, "", contract.WantSignal, want).Get(ctx, nil); err != nil {
		return false, "", durable.Sleep(ctx, time.Second, "ask again for a turn")
	}
	if want.Child && conflict == spec.OnConflictQueue {
		if err := r.deadlocks(ctx); err != nil {
			return false, "", err
		}
	}
	timing, stop := workflow.WithCancel(ctx)
	defer stop()
	again := workflow.NewTimerWithOptions(timing, durable.Every(ctx, pause), workflow.TimerOptions{Summary: "ask again for a turn"})
	workflow.NewSelector(ctx).
		AddReceive(workflow.GetSignalChannel(ctx, contract.TurnSignal), func(c workflow.ReceiveChannel, _ bool) {
			c.Receive(ctx, nil)
			held = true
		}).
		AddReceive(workflow.GetSignalChannel(ctx, contract.TakenSignal), func(c workflow.ReceiveChannel, _ bool) { c.Receive(ctx, &by) }).
		AddFuture(again, func(f workflow.Future) { err = f.Get(ctx, nil) }).
		Select(ctx)
	return held, by, err
}

// reject ends a run that cannot get a turn, and takes one that was canceled out of the queue.
func (r *run) reject(ctx workflow.Context, err error) {
	out := r.outcome(ctx)
	if !r.isCanceled(ctx) {
		out = record.RunOutput{Status: spec.StatusFailed, Error: fault.Message(err), ErrorType: fault.TypeOf(err)}
	}
	closing, _ := workflow.NewDisconnectedContext(ctx)
	r.releaseGroup(closing)
	r.Unbegun = &out
}

// releaseGroup releases the lock, and waits until the lock has received that: signals that are still unsent when a workflow ends are lost.
func (r *run) releaseGroup(ctx workflow.Context) {
	if r.Begin.Concurrency.Group == "" {
		return
	}
	id := contract.LockWorkflowID(r.Begin.Concurrency.Group)
	if err := workflow.SignalExternalWorkflow(ctx, id, "", contract.FreeSignal, r.in.Run).Get(ctx, nil); err != nil {
		workflow.GetLogger(ctx).Warn("the lock was not released", "group", r.Begin.Concurrency.Group, "error", err)
	}
}
