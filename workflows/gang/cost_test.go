package gang

import (
	"testing"

	"go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/fault"
	"github.com/sluiceml/sluice/workflows/durable"
)

// The step is tried again by whether a worker was lost, so that must be seen in the error.
func TestAccountHidesNoLostWorker(t *testing.T) {
	var ctx workflow.Context // no generation has ended, so that there is nobody to ask
	tr := &train{}
	if err := tr.withAccount(ctx, temporal.NewTimeoutError(enums.TIMEOUT_TYPE_HEARTBEAT, nil)); !durable.WorkerLost(err) {
		t.Errorf("%v does not say that a worker was lost", err)
	}
	if _, again := durable.NewRetryBudget(spec.Retry{Attempts: 1}).Again(tr.withAccount(ctx, fault.New(fault.User, "exit code 1", nil))); again {
		t.Error("a user's error is tried again")
	}
}
