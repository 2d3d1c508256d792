package worker

import (
	"context"
	"errors"

	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/temporal"

	"github.com/sluiceml/sluice/activities/contract"
)

// alive reports whether a run has not ended, for the lock of its concurrency group.
func (s *Session) alive(ctx context.Context, run string) (bool, error) {
	return s.runs(ctx, contract.RunWorkflowID(run))
}

// vacant returns nil when no open workflow has an ID; until then an error, upon which the server has the question repeated.
func (s *Session) vacant(ctx context.Context, workflowID string) error {
	open, err := s.runs(ctx, workflowID)
	if err == nil && open {
		return temporal.NewApplicationErrorWithOptions(workflowID+" has not ended", contract.ErrInfrastructure,
			temporal.ApplicationErrorOptions{Category: temporal.ApplicationErrorCategoryBenign}) // nothing to log
	}
	return err
}

// runs reports whether there is a workflow that has not ended.
func (s *Session) runs(ctx context.Context, workflowID string) (bool, error) {
	desc, err := s.Client.DescribeWorkflowExecution(ctx, workflowID, "")
	var gone *serviceerror.NotFound
	if errors.As(err, &gone) {
		return false, nil
	}
	return err == nil && isRunning(desc.GetWorkflowExecutionInfo().GetStatus()), err
}

// isRunning reports whether a workflow of a status has not ended.
func isRunning(status enums.WorkflowExecutionStatus) bool {
	return status == enums.WORKFLOW_EXECUTION_STATUS_RUNNING || status == enums.WORKFLOW_EXECUTION_STATUS_PAUSED
}
