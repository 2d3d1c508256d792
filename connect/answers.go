package connect

import (
	"context"
	"errors"

	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
)

// IsBusy reports whether a call failed because the server was overloaded.
func IsBusy(err error) bool {
	return errors.As(err, new(*serviceerror.DeadlineExceeded)) || errors.As(err, new(*serviceerror.ResourceExhausted)) ||
		errors.Is(err, context.DeadlineExceeded)
}

// IsAway reports whether a call failed because the server or its database could not be reached, or was overloaded.
func IsAway(err error) bool { return IsBusy(err) || errors.As(err, new(*serviceerror.Unavailable)) }

// IsNotFound reports whether a call failed because the object does not exist, or no longer.
func IsNotFound(err error) bool { return errors.As(err, new(*serviceerror.NotFound)) }

// IsRunning reports whether a workflow with the status has not ended.
func IsRunning(status enums.WorkflowExecutionStatus) bool {
	return status == enums.WORKFLOW_EXECUTION_STATUS_RUNNING || status == enums.WORKFLOW_EXECUTION_STATUS_PAUSED
}
