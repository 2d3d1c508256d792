package agent

import (
	"context"
	"sync"
	"time"

	"go.temporal.io/sdk/interceptor"
)

// idleness measures how long a node has had nothing to do. The node does this itself: if its workers are gone for good, nobody tells it,
// and it still costs money.
type idleness struct {
	interceptor.WorkerInterceptorBase
	mu    sync.Mutex
	busy  int
	since time.Time
}

func newIdleness() *idleness { return &idleness{since: time.Now()} }

// InterceptActivity implements interceptor.WorkerInterceptor.
func (i *idleness) InterceptActivity(_ context.Context, next interceptor.ActivityInboundInterceptor) interceptor.ActivityInboundInterceptor {
	return &idleActivity{ActivityInboundInterceptorBase: interceptor.ActivityInboundInterceptorBase{Next: next}, idle: i}
}

type idleActivity struct {
	interceptor.ActivityInboundInterceptorBase
	idle *idleness
}

func (a *idleActivity) ExecuteActivity(ctx context.Context, in *interceptor.ExecuteActivityInput) (any, error) {
	a.idle.add(1)
	defer a.idle.add(-1)
	return a.Next.ExecuteActivity(ctx, in)
}

func (i *idleness) add(n int) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.busy += n
	i.since = time.Now()
}

// left returns how much of a limit is left: all of it while there is something to do.
func (i *idleness) left(limit time.Duration) time.Duration {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.busy > 0 {
		return limit
	}
	return limit - time.Since(i.since)
}

// end calls stop when there has been nothing to do for as long as limit. If stop returns false, it starts over. It returns when ctx ends or
// stop has returned true.
func (i *idleness) end(ctx context.Context, limit time.Duration, stop func() bool) {
	for {
		left := i.left(limit)
		if left <= 0 {
			if stop() {
				return
			}
			i.add(0)
			continue
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(left):
		}
	}
}
