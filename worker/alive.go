package worker

import (
	"context"

	"go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"

	"github.com/sluiceml/sluice/activities/contract"
	"github.com/sluiceml/sluice/activities/engine"
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

// deadlock reports why a run would wait forever for its concurrency group.
func (w *Worker) deadlock(e *engine.Engine) func(context.Context, contract.DeadlockInput) (string, error) {
	return func(ctx context.Context, in contract.DeadlockInput) (string, error) {
		return e.Deadlock(ctx, in, groups{w})
	}
}

// groups are the concurrency groups of the server.
type groups struct{ w *Worker }

// Open implements engine.Groups.
func (g groups) Open(ctx context.Context, run string) (bool, error) { return g.w.alive(ctx, run) }

// Holder implements engine.Groups.
func (g groups) Holder(ctx context.Context, group string) (string, error) {
	var lock contract.LockInput
	answer, err := g.w.session.Client.QueryWorkflowWithOptions(ctx, &client.QueryWorkflowWithOptionsRequest{
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
