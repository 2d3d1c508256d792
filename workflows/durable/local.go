package durable

import (
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/sluiceml/sluice/internal/fault"
	"github.com/sluiceml/sluice/training/protocol"
)

// HeartbeatTimeout is the time after which a killed worker is noticed.
const HeartbeatTimeout = 10 * time.Second

// localTimeout limits one attempt of a local activity, which may wait for the store.
const localTimeout = protocol.Patience + time.Minute

// LocalOptions are the options of the engine's local activities, which read and write small records and evaluate expressions.
func LocalOptions(summary string) workflow.LocalActivityOptions {
	return workflow.LocalActivityOptions{
		StartToCloseTimeout: localTimeout,
		RetryPolicy: &temporal.RetryPolicy{
			InitialInterval: 100 * time.Millisecond, MaximumInterval: 5 * time.Second, MaximumAttempts: 8,
			NonRetryableErrorTypes: []string{fault.Invalid, fault.User, fault.Gate, fault.Lost},
		},
		Summary: summary,
	}
}

// Local runs one of the engine's local activities.
func Local(ctx workflow.Context, name, summary string, in, out any) error {
	admit(ctx)
	grow(ctx)
	err := workflow.ExecuteLocalActivity(workflow.WithLocalActivityOptions(ctx, LocalOptions(summary)), name, in).Get(ctx, out)
	weigh(ctx, []any{out, fault.Message(err)}) // history has the result, and not the input
	return err
}
