package workflows

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/workflow"

	"github.com/sluiceml/sluice/activities/contract"
	"github.com/sluiceml/sluice/internal/testing/flowtest"
)

// TestStepsTakeTurns: of the steps of a run that wait for the same target none tries to start its child in vain, however many there are.
func TestStepsTakeTurns(t *testing.T) {
	const steps = 20
	env := flowtest.New()
	var inVain, running, most int
	child := func(ctx workflow.Context) error {
		running++
		most = max(most, running)
		defer func() { running-- }()
		return workflow.Sleep(ctx, time.Minute)
	}
	env.RegisterWorkflowWithOptions(child, workflow.RegisterOptions{Name: "child"})
	var open atomic.Bool
	env.SetOnChildWorkflowStartedListener(func(*workflow.Info, workflow.Context, converter.EncodedValues) { open.Store(true) })
	env.RegisterActivityWithOptions(func(context.Context, string) error {
		if open.Load() {
			return errors.New("it has not ended")
		}
		return nil
	}, activity.RegisterOptions{Name: contract.VacantActivity})
	env.ExecuteWorkflow(func(ctx workflow.Context) error {
		queue, ended := turns{}, 0
		for range steps {
			workflow.Go(ctx, func(ctx workflow.Context) {
				ctx = workflow.WithChildOptions(ctx, workflow.ChildWorkflowOptions{WorkflowID: "rollout/t"})
				one, err := queue.startWhenFree(ctx, "rollout/t", func() workflow.ChildWorkflowFuture {
					one := workflow.ExecuteChildWorkflow(ctx, "child")
					if isTaken(one.GetChildWorkflowExecution().Get(ctx, nil)) {
						inVain++
					}
					return one
				})
				if err == nil {
					err = one.Get(ctx, nil)
				}
				if err != nil {
					t.Error(err)
				}
				open.Store(false)
				ended++
			})
		}
		return workflow.Await(ctx, func() bool { return ended == steps })
	})
	if err := env.GetWorkflowError(); err != nil || !env.IsWorkflowCompleted() {
		t.Fatalf("it ended with %v", err)
	}
	if inVain > 0 || most != 1 {
		t.Errorf("%d children were started in vain, and %d ran at once", inVain, most)
	}
}
