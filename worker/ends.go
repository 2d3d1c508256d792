package worker

import (
	"context"
	"errors"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/worker"

	"github.com/sluiceml/sluice/internal/fault"
	"github.com/sluiceml/sluice/store"
)

// ends says of some ends of activities what they mean to Temporal.
type ends struct {
	interceptor.WorkerInterceptorBase
}

// InterceptActivity implements interceptor.WorkerInterceptor.
func (*ends) InterceptActivity(_ context.Context, next interceptor.ActivityInboundInterceptor) interceptor.ActivityInboundInterceptor {
	return &ending{interceptor.ActivityInboundInterceptorBase{Next: next}}
}

type ending struct {
	interceptor.ActivityInboundInterceptorBase
}

// ExecuteActivity implements interceptor.ActivityInboundInterceptor.
func (e *ending) ExecuteActivity(ctx context.Context, in *interceptor.ExecuteActivityInput) (any, error) {
	out, err := e.Next.ExecuteActivity(ctx, in)
	switch {
	case err == nil:
	case activity.GetInfo(ctx).HeartbeatTimeout > 0 && errors.Is(context.Cause(ctx), worker.ErrWorkerShutdown):
		// It ends because this worker is told to stop, and has not failed. Temporal is told nothing, takes the worker for dead and has the
		// activity done again, as after a kill.
		return nil, activity.ErrResultPending
	case errors.Is(err, store.ErrRefused) || errors.Is(err, store.ErrReadOnly):
		err = fault.Final(err) // asked again, the store would refuse again
	}
	return out, err
}
