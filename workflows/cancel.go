package workflows

import (
	"go.temporal.io/sdk/workflow"

	"github.com/sluiceml/sluice/activities/contract"
	"github.com/sluiceml/sluice/dsl/spec"
)

// Temporal cancels a workflow only once. The first cancellation stops the main steps; the sections after them clean up, so it does not stop
// those. To stop them too, cancel again: a further cancellation arrives as a signal.

// isCanceled reports whether the main steps were canceled.
func (r *run) isCanceled(ctx workflow.Context) bool {
	return r.Canceled || !r.mainOver && ctx.Err() != nil
}

// endMain records whether the main steps were canceled: a later cancellation does not change how they ended.
func (r *run) endMain(ctx workflow.Context) {
	r.Canceled, r.mainOver = r.isCanceled(ctx), true
}

// after returns the context of a section that follows the main one. It is not canceled with the run's context.
func (r *run) after(ctx workflow.Context, section spec.Section) workflow.Context {
	within, stop := workflow.NewDisconnectedContext(ctx)
	r.stopAfter = stop
	if r.Cut == section { // in an earlier history
		stop()
	}
	return within
}

// listenForCancels lets a further cancellation stop the section that follows the main steps.
func (r *run) listenForCancels(ctx workflow.Context) {
	again := workflow.GetSignalChannel(ctx, contract.CancelSignal)
	workflow.GoNamed(ctx, "cancels", func(ctx workflow.Context) {
		for again.Receive(ctx, nil) {
			r.cutOff()
		}
	})
	if r.Canceled { // in an earlier history: Temporal takes the next cancel for this one's first
		workflow.GoNamed(ctx, "cancel", func(ctx workflow.Context) {
			ctx.Done().Receive(ctx, nil)
			r.cutOff()
		})
	}
}

// cutOff stops the later section that is running, if any.
func (r *run) cutOff() {
	if r.mainOver && r.inFlight > 0 {
		r.Cut = r.section
		r.stopAfter()
	}
}
