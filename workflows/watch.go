package workflows

import (
	"time"

	"go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/sluiceml/sluice/activities/contract"
	"github.com/sluiceml/sluice/internal/fault"
	"github.com/sluiceml/sluice/workflows/durable"
)

// lookAttempts is how often a check is tried: the next one follows soon, and an error should be visible soon.
const lookAttempts = 2

// lookTimeout is enough for a bucket with as many objects as a trigger can watch.
const lookTimeout = time.Minute

// Watch is the watch of a trigger, one workflow for as long as the trigger exists: it checks at intervals whether a run is due. It ends by
// itself if the trigger is paused, changed or deleted; the trigger's schedule starts it, also after somebody has ended it.
func Watch(ctx workflow.Context, in contract.WatchInput) error {
	for {
		look, err := watchOnce(ctx, in)
		switch {
		case look.Over:
			return nil
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil:
			workflow.SetCurrentDetails(ctx, "cannot check: "+fault.Message(err))
			note := contract.WatchNote{Pipeline: in.Run.Name, Trigger: in.Run.Trigger.Name, Error: fault.Message(err)}
			if err := durable.Local(ctx, contract.TriggerNoteActivity, "record the problem", note, nil); err != nil {
				workflow.GetLogger(ctx).Warn("the problem of a trigger was not recorded", "trigger", note.Trigger, "error", err)
			}
		default:
			workflow.SetCurrentDetails(ctx, look.Summary)
		}
		in.Looked = true
		if durable.IsLong(ctx) {
			return workflow.NewContinueAsNewError(ctx, contract.WatchWorkflow, in)
		}
		if err := durable.Sleep(ctx, time.Duration(in.Spec.Interval()), "wait for the next check"); err != nil {
			return err
		}
	}
}

// watchOnce is one check: it asks whether a run is due, starts it, and removes it from the trigger's state. If it ends in between, the next
// check gets the same run again, whose ID is the lock.
func watchOnce(ctx workflow.Context, in contract.WatchInput) (contract.Look, error) {
	options := durable.LocalOptions("look")
	options.RetryPolicy.MaximumAttempts, options.StartToCloseTimeout = lookAttempts, lookTimeout
	var look contract.Look
	looked := workflow.ExecuteLocalActivity(workflow.WithLocalActivityOptions(ctx, options), contract.TriggerLookActivity, in)
	if err := looked.Get(ctx, &look); err != nil || look.Run == "" {
		return look, err
	}
	run := in.Run
	run.Run, run.Trigger = look.Run, look.Trigger
	own, _ := workflow.NewDisconnectedContext(ctx) // the end of the watch is not that of the run
	child := workflow.WithChildOptions(own, workflow.ChildWorkflowOptions{
		WorkflowID:            contract.RunWorkflowID(run.Run),
		WorkflowIDReusePolicy: enums.WORKFLOW_ID_REUSE_POLICY_REJECT_DUPLICATE,
		ParentClosePolicy:     enums.PARENT_CLOSE_POLICY_ABANDON,
		StaticSummary:         "pipeline " + run.Name + ", " + run.Trigger.Name,
		TypedSearchAttributes: temporal.NewSearchAttributes(
			temporal.NewSearchAttributeKeyKeyword(contract.SearchPipeline).ValueSet(run.Name)),
	})
	started := workflow.ExecuteChildWorkflow(child, contract.PipelineWorkflow, run).GetChildWorkflowExecution()
	if err := started.Get(own, nil); err != nil && !isTaken(err) {
		return look, err
	}
	note := contract.WatchNote{Pipeline: run.Name, Trigger: run.Trigger.Name, Run: run.Run}
	return look, durable.Local(own, contract.TriggerNoteActivity, "record the run", note, nil)
}
