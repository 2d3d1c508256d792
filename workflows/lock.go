package workflows

import (
	"slices"
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/sluiceml/sluice/activities/contract"
	"github.com/sluiceml/sluice/workflows/durable"
)

// A run releases its lock when it ends, but a terminated run cannot. The lock therefore checks whether its holder is still open every
// aliveEvery, and when another run requests the lock: always for a run that does not wait, otherwise unless it has checked within
// aliveKnown.
const (
	aliveEvery = 15 * time.Second
	aliveKnown = time.Second
)

// Lock is the lock of a concurrency group. Its workflow ID is derived from the group, so there is only one. One run holds it, and others
// wait for it in the order in which they arrived. It ends when no run holds it or waits.
func Lock(ctx workflow.Context, in contract.LockInput) error {
	l := &lock{
		in: in, wants: workflow.GetSignalChannel(ctx, contract.WantSignal), frees: workflow.GetSignalChannel(ctx, contract.FreeSignal),
	}
	if err := workflow.SetQueryHandler(ctx, contract.StateQuery, func() (contract.LockInput, error) { return l.in, nil }); err != nil {
		return err
	}
	for {
		l.hear(ctx)
		switch {
		case l.in.Run == "" && len(l.in.Waiting) == 0:
			return nil
		case l.in.Run == "":
			l.next(ctx)
			continue
		case durable.IsLong(ctx):
			return workflow.NewContinueAsNewError(ctx, contract.LockWorkflow, l.in)
		}
		if err := l.wait(ctx); err != nil {
			return err // cancelled by a person; runs that wait make a new lock
		}
	}
}

// lock is the state of one lock workflow.
type lock struct {
	in           contract.LockInput
	wants, frees workflow.ReceiveChannel
	look         workflow.Future // the time to look whether the holder is there
	looked       time.Time       // when that was last done
}

// hear receives all pending signals, so that none is lost when this history ends.
func (l *lock) hear(ctx workflow.Context) {
	var want contract.LockRequest
	for l.wants.ReceiveAsync(&want) {
		l.enqueue(ctx, want)
		want = contract.LockRequest{}
	}
	var run string
	for l.frees.ReceiveAsync(&run) {
		l.free(run)
	}
}

// wait returns when a run has sent a signal, or when it is time to check the holder.
func (l *lock) wait(ctx workflow.Context) (err error) {
	if l.look == nil {
		l.look = workflow.NewTimerWithOptions(ctx, durable.Every(ctx, aliveEvery), workflow.TimerOptions{Summary: "check the holder"})
	}
	workflow.NewSelector(ctx).
		AddReceive(l.wants, func(c workflow.ReceiveChannel, _ bool) {
			var want contract.LockRequest
			c.Receive(ctx, &want)
			l.enqueue(ctx, want)
		}).
		AddReceive(l.frees, func(c workflow.ReceiveChannel, _ bool) {
			var run string
			c.Receive(ctx, &run)
			l.free(run)
		}).
		AddFuture(l.look, func(f workflow.Future) {
			l.look = nil
			if err = f.Get(ctx, nil); err == nil {
				l.lookAfterHolder(ctx)
			}
		}).
		Select(ctx)
	return err
}

// enqueue adds a run to the queue. The holder is told again if it asks again, a run that waits already keeps its place, and one that cannot or
// does not want to wait is told so. A run that evicts others cancels all that came before it.
func (l *lock) enqueue(ctx workflow.Context, want contract.LockRequest) {
	switch {
	case want.Run == l.in.Run:
		l.tell(ctx, want.Run, contract.TurnSignal, nil)
		return
	case slices.Contains(l.in.Waiting, want.Run):
		return
	}
	if want.Skip || workflow.Now(ctx).Sub(l.looked) >= aliveKnown {
		l.lookAfterHolder(ctx)
	}
	before := l.in.Waiting
	if l.in.Run != "" {
		before = append([]string{l.in.Run}, before...)
	}
	if len(before) > 0 && (want.Skip || want.Child && contract.Within(want.Run, before[0])) {
		l.tell(ctx, want.Run, contract.TakenSignal, before[0])
		return
	}
	if want.Evict {
		for _, run := range before {
			if err := l.tell(ctx, run, contract.EvictedSignal, want.Run).Get(ctx, nil); err != nil {
				workflow.GetLogger(ctx).Info("a run that is canceled was not told for which other run", "run", run, "error", err)
			}
			workflow.RequestCancelExternalWorkflow(ctx, contract.RunWorkflowID(run), "")
		}
	}
	l.in.Waiting = append(l.in.Waiting, want.Run)
}

func (*lock) tell(ctx workflow.Context, run, signal string, what any) workflow.Future {
	return workflow.SignalExternalWorkflow(ctx, contract.RunWorkflowID(run), "", signal, what)
}

// lookAfterHolder takes the lock away from a holder that is no longer open.
func (l *lock) lookAfterHolder(ctx workflow.Context) {
	if l.in.Run != "" && !l.alive(ctx) {
		l.in.Run = ""
	}
	l.looked = workflow.Now(ctx)
}

// free removes a run as the holder, or from the queue.
func (l *lock) free(run string) {
	if run == l.in.Run {
		l.in.Run = ""
	}
	l.in.Waiting = slices.DeleteFunc(l.in.Waiting, func(waits string) bool { return waits == run })
}

// next gives the lock to the run that has waited longest. If that run is no longer open, the next one is tried.
func (l *lock) next(ctx workflow.Context) {
	run := l.in.Waiting[0]
	l.in.Waiting = l.in.Waiting[1:]
	if l.tell(ctx, run, contract.TurnSignal, nil).Get(ctx, nil) == nil {
		l.in.Run = run
	}
}

// alive reports whether the holder is still open. If that is unknown, it is taken to be.
func (l *lock) alive(ctx workflow.Context) bool {
	ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		StartToCloseTimeout: 10 * time.Second,
		RetryPolicy:         &temporal.RetryPolicy{MaximumAttempts: 1},
		Summary:             "is run " + l.in.Run + " still open?",
	})
	alive := true
	err := workflow.ExecuteActivity(ctx, contract.AliveActivity, l.in.Run).Get(ctx, &alive)
	return err != nil || alive
}
