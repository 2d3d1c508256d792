package train

import (
	"testing"

	"go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/temporal"

	"github.com/sluiceml/sluice/activities/contract"
	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/fault"
	"github.com/sluiceml/sluice/workflows/durable"
)

// The step is tried again by whether a worker was lost, so that must be seen in the error.
func TestCostHidesNoLostWorker(t *testing.T) {
	tr := &train{carried: contract.TrainContinuation{Generations: []spec.Generation{{CostUSD: 7}}}}
	if err := tr.withCost(temporal.NewTimeoutError(enums.TIMEOUT_TYPE_HEARTBEAT, nil)); !durable.WorkerLost(err) {
		t.Errorf("%v does not say that a worker was lost", err)
	}
	if _, again := durable.NewRetryBudget(spec.Retry{Attempts: 1}).Again(tr.withCost(fault.New(fault.User, "exit code 1", nil))); again {
		t.Error("a user's error is tried again")
	}
}
