package worker

import (
	"context"

	"go.temporal.io/sdk/temporal"

	"github.com/sluiceml/sluice/activities/contract"
	"github.com/sluiceml/sluice/connect"
	"github.com/sluiceml/sluice/internal/fault"
)

// alive reports whether a run has not ended, for the lock of its concurrency group.
func (w *Worker) alive(ctx context.Context, run string) (bool, error) {
	return w.runs(ctx, contract.RunWorkflowID(run))
}

// vacant returns nil when no open workflow has an ID; until then an error, upon which the server has the question repeated.
func (w *Worker) vacant(ctx context.Context, workflowID string) error {
	open, err := w.runs(ctx, workflowID)
	if err == nil && open {
		return temporal.NewApplicationErrorWithOptions(workflowID+" has not ended", fault.Infrastructure,
			temporal.ApplicationErrorOptions{Category: temporal.ApplicationErrorCategoryBenign}) // nothing to log
	}
	return err
}

// runs reports whether there is a workflow that has not ended.
func (w *Worker) runs(ctx context.Context, workflowID string) (bool, error) {
	desc, err := w.session.Client.DescribeWorkflowExecution(ctx, workflowID, "")
	if connect.IsNotFound(err) {
		return false, nil
	}
	return err == nil && connect.IsRunning(desc.GetWorkflowExecutionInfo().GetStatus()), err
}
