package worker

import (
	"context"
	"errors"

	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
)

// isBusy reports whether a call failed because the server had too much to do.
func isBusy(err error) bool {
	var late *serviceerror.DeadlineExceeded
	var exhausted *serviceerror.ResourceExhausted
	return errors.As(err, &late) || errors.As(err, &exhausted) || errors.Is(err, context.DeadlineExceeded)
}

// isNotFound reports whether a call failed because there is no such thing, or no longer.
func isNotFound(err error) bool {
	var gone *serviceerror.NotFound
	return errors.As(err, &gone)
}

// isRunning reports whether a workflow of a status has not ended.
func isRunning(status enums.WorkflowExecutionStatus) bool {
	return status == enums.WORKFLOW_EXECUTION_STATUS_RUNNING || status == enums.WORKFLOW_EXECUTION_STATUS_PAUSED
}
