package workflows

import (
	"go.temporal.io/sdk/workflow"

	"github.com/sluiceml/sluice/activities/contract"
	"github.com/sluiceml/sluice/dsl/spec"
)

// Temporal cancels a workflow once. The first cancel stops the main steps, and what comes after them is there to clean up behind them; so
// whoever wants that stopped, too, says it again, by a signal.

// isCanceled reports whether the main steps were canceled.
func (r *run) isCanceled(ctx workflow.Context) bool {
	return r.canceled || !r.mainOver && ctx.Err() != nil
}

// endMain settles whether the main steps were canceled: a cancel that comes later changes nothing about how they ended.
func (r *run) endMain(ctx workflow.Context) {
	r.canceled, r.mainOver = r.isCanceled(ctx), true
}

// after is the context of a section that comes after the main one. It does not end with the run's.
func (r *run) after(ctx workflow.Context, section spec.Section) workflow.Context {
	within, stop := workflow.NewDisconnectedContext(ctx)
	r.stopAfter = stop
	if r.cut == section { // in an earlier history
		stop()
	}
	return within
}

// listenForCancels lets a further cancel stop what comes after the main steps.
func (r *run) listenForCancels(ctx workflow.Context) {
	again := workflow.GetSignalChannel(ctx, contract.CancelSignal)
	workflow.GoNamed(ctx, "cancels", func(ctx workflow.Context) {
		for again.Receive(ctx, nil) {
			r.cutOff()
		}
	})
	if r.canceled { // in an earlier history: Temporal takes the next cancel for this one's first
		workflow.GoNamed(ctx, "cancel", func(ctx workflow.Context) {
			ctx.Done().Receive(ctx, nil)
			r.cutOff()
		})
	}
}

// cutOff stops the later section that is under way, if one is.
func (r *run) cutOff() {
	if r.mainOver && r.inFlight > 0 {
		r.cut = r.section
		r.stopAfter()
	}
}
