package durable

import (
	"time"

	"go.temporal.io/sdk/workflow"
)

// Sleep pauses the workflow. about is the name of the timer in Temporal's UI.
func Sleep(ctx workflow.Context, pause time.Duration, about string) error {
	return workflow.NewTimerWithOptions(ctx, pause, workflow.TimerOptions{Summary: about}).Get(ctx, nil)
}

// Await waits for cond, and returns false if cond is not true within limit. about is the name of the timer in Temporal's UI.
func Await(ctx workflow.Context, limit time.Duration, about string, cond func() bool) (bool, error) {
	ctx, stop := workflow.WithCancel(ctx) // the timer ends with the wait
	defer stop()
	return workflow.AwaitWithOptions(ctx, workflow.AwaitOptions{Timeout: limit, TimerOptions: workflow.TimerOptions{Summary: about}}, cond)
}
