package worker

import (
	"context"
	"errors"

	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"

	"github.com/sluiceml/sluice/activities/contract"
)

// alive reports whether a run has not ended, for the lock of its concurrency group.
func (s *Session) alive(ctx context.Context, run string) (bool, error) {
	desc, err := s.Client.DescribeWorkflowExecution(ctx, contract.RunWorkflowID(run), "")
	var gone *serviceerror.NotFound
	if errors.As(err, &gone) {
		return false, nil
	}
	return err == nil && desc.GetWorkflowExecutionInfo().GetStatus() == enums.WORKFLOW_EXECUTION_STATUS_RUNNING, err
}
