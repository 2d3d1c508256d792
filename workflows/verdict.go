package workflows

import (
	"cmp"

	"go.temporal.io/sdk/workflow"

	"github.com/sluiceml/sluice/activities/contract"
	"github.com/sluiceml/sluice/workflows/durable"
)

// concludeStep is conclude for a step, or an instance of one.
func concludeStep(ctx workflow.Context, id string, word contract.StepVerdict) {
	durable.Conclude(ctx, id, string(word.Status), cmp.Or(word.Error, word.Summary))
}
