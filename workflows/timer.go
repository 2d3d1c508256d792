package workflows

import (
	"time"

	"go.temporal.io/sdk/workflow"
)

// sleep pauses the workflow. Temporal's UI shows the timer as about.
func sleep(ctx workflow.Context, pause time.Duration, about string) error {
	return workflow.NewTimerWithOptions(ctx, pause, workflow.TimerOptions{Summary: about}).Get(ctx, nil)
}

// await waits for cond, and reports false when that does not hold within limit. Temporal's UI shows the timer as about.
func await(ctx workflow.Context, limit time.Duration, about string, cond func() bool) (bool, error) {
	if since(ctx, changeStopTimers) {
		var stop workflow.CancelFunc
		ctx, stop = workflow.WithCancel(ctx)
		defer stop()
	}
	return workflow.AwaitWithOptions(ctx, workflow.AwaitOptions{Timeout: limit, TimerOptions: workflow.TimerOptions{Summary: about}}, cond)
}
