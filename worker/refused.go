package worker

import (
	"context"
	"errors"

	"go.temporal.io/sdk/interceptor"

	"github.com/sluiceml/sluice/internal/fault"
	"github.com/sluiceml/sluice/store"
)

// refusals makes what the store refuses an end of the activity that asked: asked again, it would refuse again.
type refusals struct {
	interceptor.WorkerInterceptorBase
}

// InterceptActivity implements interceptor.WorkerInterceptor.
func (*refusals) InterceptActivity(_ context.Context, next interceptor.ActivityInboundInterceptor) interceptor.ActivityInboundInterceptor {
	return &refusal{interceptor.ActivityInboundInterceptorBase{Next: next}}
}

type refusal struct {
	interceptor.ActivityInboundInterceptorBase
}

// ExecuteActivity implements interceptor.ActivityInboundInterceptor.
func (r *refusal) ExecuteActivity(ctx context.Context, in *interceptor.ExecuteActivityInput) (any, error) {
	out, err := r.Next.ExecuteActivity(ctx, in)
	if errors.Is(err, store.ErrRefused) || errors.Is(err, store.ErrReadOnly) {
		err = fault.Final(err)
	}
	return out, err
}
