package durable

import (
	"go.temporal.io/sdk/workflow"

	"github.com/sluiceml/sluice/activities/contract"
)

// Tell reports the progress of a step to the workflow of its run, whose details in Temporal's UI are the user's page of the run. The step
// does not depend on whether the report arrives.
func Tell(ctx workflow.Context, note contract.Note) {
	parent := workflow.GetInfo(ctx).ParentWorkflowExecution
	if parent == nil {
		return
	}
	workflow.SignalExternalWorkflow(ctx, parent.ID, parent.RunID, contract.NoteSignal, note)
}
