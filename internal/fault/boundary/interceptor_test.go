package boundary

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/log"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/sluiceml/sluice/internal/fault"
)

// A worker retries local activities itself, by what the Interceptor made of their errors; updates and the workflow end with faults, too.
func TestInterceptor(t *testing.T) {
	var suite testsuite.WorkflowTestSuite
	suite.SetLogger(log.NewStructuredLogger(slog.New(slog.DiscardHandler)))
	env := suite.NewTestWorkflowEnvironment()
	env.SetWorkerOptions(worker.Options{Interceptors: []interceptor.WorkerInterceptor{&Interceptor{}}})
	var tries int
	local := func(_ context.Context, typ string) error {
		tries++
		return fault.New(typ, "local", nil)
	}
	distant := func(context.Context) error { return fault.New(fault.Preempted, "distant", nil) }
	env.RegisterActivity(distant)
	flow := func(ctx workflow.Context) error {
		answer := func(workflow.Context, int) error { return fault.New(fault.Gate, "answered", nil) }
		validate := func(n int) error {
			if n == 0 {
				return fault.New(fault.Invalid, "refused", nil)
			}
			return nil
		}
		if err := workflow.SetUpdateHandlerWithOptions(ctx, "decide", answer, workflow.UpdateHandlerOptions{Validator: validate}); err != nil {
			return err
		}
		for typ, want := range map[string]int{fault.Invalid: 1, fault.Infrastructure: 3} {
			tries = 0
			err := workflow.ExecuteLocalActivity(workflow.WithLocalActivityOptions(ctx, workflow.LocalActivityOptions{
				StartToCloseTimeout: time.Minute, RetryPolicy: &temporal.RetryPolicy{MaximumAttempts: 3},
			}), local, typ).Get(ctx, nil)
			if fault.TypeOf(err) != typ || tries != want {
				t.Errorf("a local activity fails as %s, and was tried %d times: %v", fault.TypeOf(err), tries, err)
			}
		}
		err := workflow.ExecuteActivity(workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
			StartToCloseTimeout: time.Minute, RetryPolicy: &temporal.RetryPolicy{MaximumAttempts: 1},
		}), distant).Get(ctx, nil)
		if fault.TypeOf(err) != fault.Preempted || fault.Message(err) != "distant" {
			t.Errorf("an activity fails as %s: %v", fault.TypeOf(err), err)
		}
		if err := workflow.Sleep(ctx, time.Hour); err != nil {
			return err
		}
		return fault.WithCost(fault.New(fault.Budget, "too much", nil), fault.Costs{USD: 2})
	}
	isFailure := func(err error, typ string) bool {
		var app *temporal.ApplicationError
		return errors.As(err, &app) && app.Type() == typ && fault.TypeOf(err) == typ && !errors.As(err, new(*fault.Error))
	}
	var answers int
	update := func(n int, typ string, accepted bool) {
		env.UpdateWorkflow("decide", typ, &testsuite.TestUpdateCallback{
			OnAccept: func() {},
			OnReject: func(err error) {
				answers++
				if accepted || !isFailure(err, typ) {
					t.Errorf("update %d is refused: %v", n, err)
				}
			},
			OnComplete: func(_ any, err error) {
				answers++
				if !accepted || !isFailure(err, typ) {
					t.Errorf("update %d ends with %v", n, err)
				}
			},
		}, n)
	}
	env.RegisterDelayedCallback(func() { update(0, fault.Invalid, false) }, time.Second)
	env.RegisterDelayedCallback(func() { update(1, fault.Gate, true) }, 2*time.Second)
	env.ExecuteWorkflow(flow)
	if answers != 2 {
		t.Errorf("%d answers to updates", answers)
	}
	if err := env.GetWorkflowError(); !isFailure(err, fault.Budget) || fault.CostOf(err).USD != 2 {
		t.Errorf("the workflow ends with %v", err)
	}
}
