package control

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"

	"github.com/sluiceml/sluice/activities/contract"
	"github.com/sluiceml/sluice/connect"
)

const (
	// startLimit is how long a server is asked to start a run when it is too busy to: a thousand at once take the embedded one
	// half a minute.
	startLimit = 5 * time.Minute
	// startPause is the first pause between two tries; the longest is startPauseMax.
	startPause    = 250 * time.Millisecond
	startPauseMax = 5 * time.Second
)

// StartRun starts a run's workflow, unless it was started already. A server that is too busy is asked again.
func StartRun(ctx context.Context, c client.Client, in contract.RunInput) error {
	ctx, cancel := context.WithTimeoutCause(ctx, startLimit, fmt.Errorf("the server was too busy for %v", startLimit))
	defer cancel()
	for pause := startPause; ; pause = min(2*pause, startPauseMax) {
		_, err := c.ExecuteWorkflow(ctx, client.StartWorkflowOptions{
			ID:                       contract.RunWorkflowID(in.Run),
			TaskQueue:                contract.TaskQueue,
			WorkflowIDConflictPolicy: enums.WORKFLOW_ID_CONFLICT_POLICY_USE_EXISTING,
			WorkflowIDReusePolicy:    enums.WORKFLOW_ID_REUSE_POLICY_REJECT_DUPLICATE,
			StaticSummary:            "pipeline " + in.Name,
			TypedSearchAttributes: temporal.NewSearchAttributes(
				temporal.NewSearchAttributeKeyKeyword(contract.SearchPipeline).ValueSet(in.Name)),
		}, contract.PipelineWorkflow, in)
		if err == nil {
			return nil
		}
		if connect.IsBusy(err) {
			select {
			case <-time.After(pause/2 + rand.N(pause)):
				continue
			case <-ctx.Done():
				err = fmt.Errorf("%w: %w", context.Cause(ctx), err)
			}
		}
		return fmt.Errorf("start run %s: %w", in.Run, err)
	}
}
