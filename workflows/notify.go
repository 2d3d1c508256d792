package workflows

import (
	"slices"
	"strings"
	"time"

	"go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/sluiceml/sluice/activities/contract"
	"github.com/sluiceml/sluice/internal/fault"
	"github.com/sluiceml/sluice/workflows/durable"
)

const (
	// sendTimeout limits one delivery, and sendLimit all attempts together.
	sendTimeout = 45 * time.Second
	sendLimit   = time.Hour
	// maxNotice limits the text that goes into history; the message itself is shorter.
	maxNotice = 8000
)

// notify starts the notification of an event of the run. It returns as soon as Temporal has accepted the workflow: the run never waits for
// a receiver, and none can fail it. If the pipeline notifies nobody of the event, it does nothing.
func (r *run) notify(ctx workflow.Context, event, text string) {
	if !slices.Contains(r.Begin.Notify, event) {
		return
	}
	ctx, _ = workflow.NewDisconnectedContext(ctx) // a canceled run has news too
	r.Notified++
	ctx = workflow.WithChildOptions(ctx, workflow.ChildWorkflowOptions{
		WorkflowID:               contract.NotifyWorkflowID(r.in.Run, event, r.Notified),
		WorkflowExecutionTimeout: contract.NotifyLimit,
		ParentClosePolicy:        enums.PARENT_CLOSE_POLICY_ABANDON,
		StaticSummary:            "notify: " + event,
		TypedSearchAttributes: temporal.NewSearchAttributes(
			temporal.NewSearchAttributeKeyKeyword(contract.SearchPipeline).ValueSet(r.in.Name)),
	})
	in := contract.NotifyInput{
		Run: r.in.Run, Pipeline: r.in.Name, Submission: r.in.Submission, Event: event,
		Text: strings.ToValidUTF8(text[:min(len(text), maxNotice)], ""), At: workflow.Now(ctx),
	}
	// A child workflow that has not been started when its parent ends is never started.
	if err := workflow.ExecuteChildWorkflow(ctx, contract.NotifyWorkflow, in).GetChildWorkflowExecution().Get(ctx, nil); err != nil {
		workflow.GetLogger(ctx).Error("notifications are not sent", "event", event, "error", err)
	}
}

// Notify delivers the message about one event to all receivers in parallel. It fails if a delivery fails, so that people can see that.
func Notify(ctx workflow.Context, in contract.NotifyInput) error {
	var names []string
	if err := durable.Local(ctx, contract.NotifyAudienceActivity, "find recipients", in, &names); err != nil {
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
				NonRetryableErrorTypes: []string{fault.Invalid},
			},
			Summary: "to " + name,
		}), contract.NotifyActivity, send)
	}
	var failed []string
	for i, name := range names {
		if err := sent[i].Get(ctx, nil); err != nil {
			failed = append(failed, name+": "+fault.Message(err))
		}
	}
	if len(failed) > 0 {
		return &fault.Error{Type: fault.Infrastructure, Message: "not notified: " + strings.Join(failed, "; "), Final: true}
	}
	return nil
}
