package workflows

import (
	"cmp"

	"go.temporal.io/sdk/workflow"

	"github.com/sluiceml/sluice/activities/contract"
	"github.com/sluiceml/sluice/workflows/durable"
)

// concludeStep is conclude for a step, or an instance of one.
func concludeStep(ctx workflow.Context, id string, verdict contract.StepVerdict) {
	durable.Conclude(ctx, id, string(verdict.Status), cmp.Or(verdict.Error, verdict.Summary))
}
