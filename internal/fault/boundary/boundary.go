// Package boundary makes Temporal's failures of faults, where they leave our code: every worker has its Interceptor. The other way needs
// nothing, since package fault reads what has come through Temporal.
package boundary

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/sluiceml/sluice/internal/fault"
)

// Interceptor has activities, workflows and updates end with what Failure makes of their errors. It is a worker's first, so that the
// others see faults, and may return some.
type Interceptor struct {
	interceptor.WorkerInterceptorBase
}

// InterceptActivity implements interceptor.WorkerInterceptor.
func (*Interceptor) InterceptActivity(_ context.Context, next interceptor.ActivityInboundInterceptor) interceptor.ActivityInboundInterceptor {
	return &activities{interceptor.ActivityInboundInterceptorBase{Next: next}}
}

// InterceptWorkflow implements interceptor.WorkerInterceptor.
func (*Interceptor) InterceptWorkflow(_ workflow.Context, next interceptor.WorkflowInboundInterceptor) interceptor.WorkflowInboundInterceptor {
	return &workflows{interceptor.WorkflowInboundInterceptorBase{Next: next}}
}

type activities struct {
	interceptor.ActivityInboundInterceptorBase
}

// ExecuteActivity implements interceptor.ActivityInboundInterceptor, for local activities too.
func (a *activities) ExecuteActivity(ctx context.Context, in *interceptor.ExecuteActivityInput) (any, error) {
	out, err := a.Next.ExecuteActivity(ctx, in)
	return out, Failure(err)
}

type workflows struct {
	interceptor.WorkflowInboundInterceptorBase
}

// ExecuteWorkflow implements interceptor.WorkflowInboundInterceptor.
func (w *workflows) ExecuteWorkflow(ctx workflow.Context, in *interceptor.ExecuteWorkflowInput) (any, error) {
	out, err := w.Next.ExecuteWorkflow(ctx, in)
	return out, Failure(err)
}

// ValidateUpdate implements interceptor.WorkflowInboundInterceptor.
func (w *workflows) ValidateUpdate(ctx workflow.Context, in *interceptor.UpdateInput) error {
	return Failure(w.Next.ValidateUpdate(ctx, in))
}

// ExecuteUpdate implements interceptor.WorkflowInboundInterceptor.
func (w *workflows) ExecuteUpdate(ctx workflow.Context, in *interceptor.UpdateInput) (any, error) {
	out, err := w.Next.ExecuteUpdate(ctx, in)
	return out, Failure(err)
}

// Failure is err with an application error of Temporal's in place of each fault, wherever in err it is. The SDK records those with their
// causes, and looks for them when it decides whether a local activity is tried again.
func Failure(err error) error {
	if !errors.As(err, new(*fault.Error)) {
		return err
	}
	switch e := err.(type) {
	case *fault.Error:
		return application(e)
	case *temporal.ApplicationError: // it has a type of its own, which counts
		return err
	case interface{ Unwrap() error }:
		made, text := within(err.Error(), e.Unwrap())
		return &wrapError{text, made[0]}
	case interface{ Unwrap() []error }:
		made, text := within(err.Error(), e.Unwrap()...)
		if strings.HasSuffix(fmt.Sprintf("%T", err), ".wrapErrors") {
			return &wrapErrors{text, made}
		}
		return &joinError{wrapErrors{text, made}}
	}
	return err
}

// within returns what Failure makes of errors that another wraps, and the text of that one, which quotes them.
func within(text string, wrapped ...error) ([]error, string) {
	made := make([]error, len(wrapped))
	for i, err := range wrapped {
		made[i] = Failure(err)
		if before, after, found := strings.Cut(text, err.Error()); found {
			text = before + made[i].Error() + after
		}
	}
	return made, text
}

func application(e *fault.Error) error {
	cause := e.Unwrap()
	if _, isCancel := cause.(*temporal.CanceledError); isCancel && e.Outputs != nil {
		return temporal.NewCanceledError(string(e.Outputs))
	}
	options := temporal.ApplicationErrorOptions{NonRetryable: e.Final, Cause: Failure(cause)}
	if e.Outputs != nil {
		options.Details = []any{string(e.Outputs)}
	}
	return temporal.NewApplicationErrorWithOptions(e.Message, e.Type, options)
}

// Temporal records the name of an error's type, so these are called what fmt.Errorf and errors.Join call theirs.
type (
	wrapError struct {
		text string
		err  error
	}
	wrapErrors struct {
		text string
		errs []error
	}
	joinError struct{ wrapErrors }
)

func (w *wrapError) Error() string    { return w.text }
func (w *wrapError) Unwrap() error    { return w.err }
func (w *wrapErrors) Error() string   { return w.text }
func (w *wrapErrors) Unwrap() []error { return w.errs }
