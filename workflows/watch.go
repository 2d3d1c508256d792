package workflows

import (
	"errors"
	"time"

	"go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/sluiceml/sluice/activities/contract"
)

// lookAttempts is how often a look is tried: the next one comes by itself, and what is wrong should be seen soon.
const lookAttempts = 2

// lookTimeout is for a bucket of as many objects as a trigger looks after.
const lookTimeout = time.Minute

// Watch is one look of a trigger: it asks whether a run is due, starts it, and strikes it out. When it ends in between, the next look
// is told the same run again, whose ID is the lock.
func Watch(ctx workflow.Context, in contract.WatchInput) (contract.Look, error) {
	options := localOptions("look")
	options.RetryPolicy.MaximumAttempts, options.StartToCloseTimeout = lookAttempts, lookTimeout
	var look contract.Look
	looked := workflow.ExecuteLocalActivity(workflow.WithLocalActivityOptions(ctx, options), contract.TriggerLookActivity, in)
	if err := looked.Get(ctx, &look); err != nil || look.Run == "" {
		return look, err
	}
	run := in.Run
	run.Run, run.Trigger = look.Run, look.Trigger
	child := workflow.WithChildOptions(ctx, workflow.ChildWorkflowOptions{
		WorkflowID:            contract.RunWorkflowID(run.Run),
		WorkflowIDReusePolicy: enums.WORKFLOW_ID_REUSE_POLICY_REJECT_DUPLICATE,
		ParentClosePolicy:     enums.PARENT_CLOSE_POLICY_ABANDON,
		StaticSummary:         "pipeline " + run.Name + ", " + run.Trigger.Name,
		TypedSearchAttributes: temporal.NewSearchAttributes(
			temporal.NewSearchAttributeKeyKeyword(contract.SearchPipeline).ValueSet(run.Name)),
	})
	started := workflow.ExecuteChildWorkflow(child, contract.PipelineWorkflow, run).GetChildWorkflowExecution()
	var before *temporal.ChildWorkflowExecutionAlreadyStartedError
	if err := started.Get(ctx, nil); err != nil && !errors.As(err, &before) {
		return look, err
	}
	note := contract.WatchNote{Pipeline: run.Name, Trigger: run.Trigger.Name, Run: run.Run}
	return look, local(ctx, contract.TriggerNoteActivity, "note the run", note, nil)
}
