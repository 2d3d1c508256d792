package worker

import (
	"context"

	"go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"

	"github.com/sluiceml/sluice/activities/contract"
	"github.com/sluiceml/sluice/connect"
	"github.com/sluiceml/sluice/internal/fault"
)

// alive reports whether a run has not ended, for the lock of its concurrency group.
func (w *Worker) alive(ctx context.Context, run string) (bool, error) {
	return w.session.HasOpen(ctx, contract.RunWorkflowID(run))
}

// vacant returns nil when no open workflow has an ID; until then an error, upon which the server has the question repeated.
func (w *Worker) vacant(ctx context.Context, workflowID string) error {
	open, err := w.session.HasOpen(ctx, workflowID)
	if err == nil && open {
		return temporal.NewApplicationErrorWithOptions(workflowID+" has not ended", fault.Infrastructure,
			temporal.ApplicationErrorOptions{Category: temporal.ApplicationErrorCategoryBenign}) // nothing to log
	}
	return err
}

// holder returns the run that holds a concurrency group; empty if there is none.
func (w *Worker) holder(ctx context.Context, group string) (string, error) {
	var lock contract.LockInput
	answer, err := w.session.Client.QueryWorkflowWithOptions(ctx, &client.QueryWorkflowWithOptionsRequest{
		WorkflowID: contract.LockWorkflowID(group), QueryType: contract.StateQuery, QueryRejectCondition: enums.QUERY_REJECT_CONDITION_NOT_OPEN,
	})
	if connect.IsNotFound(err) || err == nil && answer.QueryRejected != nil {
		return "", nil
	} else if err != nil {
		return "", err
	}
	err = answer.QueryResult.Get(&lock)
	return lock.Run, err
}
