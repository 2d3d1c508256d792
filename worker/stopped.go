package worker

import (
	"context"
	"errors"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/worker"
)

// departures keeps an activity that ends because this worker is told to stop from counting as one that failed. Temporal is told nothing,
// takes the worker for dead and has the activity done again, as after a kill.
type departures struct {
	interceptor.WorkerInterceptorBase
}

// InterceptActivity implements interceptor.WorkerInterceptor.
func (*departures) InterceptActivity(_ context.Context, next interceptor.ActivityInboundInterceptor) interceptor.ActivityInboundInterceptor {
	return &departure{interceptor.ActivityInboundInterceptorBase{Next: next}}
}

type departure struct {
	interceptor.ActivityInboundInterceptorBase
}

// ExecuteActivity implements interceptor.ActivityInboundInterceptor.
func (d *departure) ExecuteActivity(ctx context.Context, in *interceptor.ExecuteActivityInput) (any, error) {
	out, err := d.Next.ExecuteActivity(ctx, in)
	if err != nil && activity.GetInfo(ctx).HeartbeatTimeout > 0 && errors.Is(context.Cause(ctx), worker.ErrWorkerShutdown) {
		return nil, activity.ErrResultPending
	}
	return out, err
}
