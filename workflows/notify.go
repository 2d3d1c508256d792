package workflows

import (
	"strings"
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/sluiceml/sluice/activities/contract"
)

const (
	// sendTimeout bounds one delivery, sendLimit all attempts at it.
	sendTimeout = 45 * time.Second
	sendLimit   = time.Hour
)

// Notify delivers the news of one event to all who want to hear it, side by side. It fails when a delivery does, for people to see.
func Notify(ctx workflow.Context, in contract.NotifyInput) error {
	var names []string
	if err := local(ctx, contract.NotifyAudienceActivity, "who wants to hear of it", in, &names); err != nil {
		return err
	}
	id := workflow.GetInfo(ctx).WorkflowExecution.ID
	sent := make([]workflow.Future, len(names))
	for i, name := range names {
		send := contract.SendInput{NotifyInput: in, To: name, ID: id + "/" + name}
		sent[i] = workflow.ExecuteActivity(workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
			StartToCloseTimeout:    sendTimeout,
			ScheduleToCloseTimeout: sendLimit,
			RetryPolicy: &temporal.RetryPolicy{
				InitialInterval: 2 * time.Second, MaximumInterval: 5 * time.Minute,
				NonRetryableErrorTypes: []string{contract.ErrInvalid},
			},
			Summary: "to " + name,
		}), contract.NotifyActivity, send)
	}
	var failed []string
	for i, name := range names {
		if err := sent[i].Get(ctx, nil); err != nil {
			failed = append(failed, name+": "+contract.Message(err))
		}
	}
	if len(failed) > 0 {
		return temporal.NewNonRetryableApplicationError("not notified: "+strings.Join(failed, "; "), contract.ErrInfrastructure, nil)
	}
	return nil
}
