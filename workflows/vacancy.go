package workflows

import (
	"errors"
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/sluiceml/sluice/activities/contract"
	"github.com/sluiceml/sluice/workflows/durable"
)

// vacancyEvery is the longest interval between two checks whether a workflow ID is free.
const vacancyEvery = 30 * time.Second

// The workflow ID of a child is a lock; that of a rollout belongs to its target. If it is taken, an activity waits until it is free. The
// server retries that activity for as long as it takes, which adds nothing to the history.

// isTaken reports whether a child was not started because another workflow has its ID.
func isTaken(err error) bool {
	return errors.As(err, new(*temporal.ChildWorkflowExecutionAlreadyStartedError))
}

// turns holds, for each workflow ID that steps of this history wait for, which of them is next.
type turns map[string]workflow.Mutex

// startWhenFree starts a child workflow when its ID is free. Steps of one history that wait for the same ID try one after the other: if all
// of them tried at the same moment, all but one would have to try again.
func (t turns) startWhenFree(
	ctx workflow.Context, id string, start func() workflow.ChildWorkflowFuture,
) (workflow.ChildWorkflowFuture, error) {
	if t[id] == nil {
		t[id] = workflow.NewMutex(ctx)
	}
	turn := t[id]
	if err := turn.Lock(ctx); err != nil {
		return nil, err
	}
	defer turn.Unlock()
	for {
		if err := awaitVacancy(ctx, id); err != nil {
			return nil, err
		}
		child := start()
		if err := child.GetChildWorkflowExecution().Get(ctx, nil); !isTaken(err) {
			return child, nil // which says itself what else went wrong
		}
	}
}

// awaitVacancy returns when no open workflow has the ID.
func awaitVacancy(ctx workflow.Context, id string) error {
	ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		StartToCloseTimeout: 10 * time.Second,
		RetryPolicy:         &temporal.RetryPolicy{InitialInterval: durable.Every(ctx, time.Second), MaximumInterval: durable.Every(ctx, vacancyEvery)},
		Summary:             "wait for the end of " + id,
	})
	return workflow.ExecuteActivity(ctx, contract.VacantActivity, id).Get(ctx, nil)
}
