// Package heartbeat keeps activities alive through a Temporal that is slow or away.
//
// The SDK's own heartbeat cancels an activity as soon as one of its calls has failed for longer than its throttle interval, so that a
// restart of the server ends every program there is. Here a call that fails is made again. An activity is canceled only by the server's
// word, or when nothing was heard of the server for AloneLimit.
package heartbeat

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/temporal"
)

const (
	// Every is how often a heartbeat is sent. It is well below the workflows' heartbeat timeouts, so that one that is lost is no lost
	// worker.
	Every = 2 * time.Second
	// AloneLimit is how long an activity goes on that the server hears nothing of: longer than the ten minutes for which everything else is
	// waited for. The server has given the activity up long before, and another worker may have begun it again; but where it is the server
	// that was away, the next attempt attaches to what runs here.
	AloneLimit = 15 * time.Minute
)

// Interceptor makes every activity that has a heartbeat timeout send heartbeats from its beginning to its end.
type Interceptor struct {
	interceptor.WorkerInterceptorBase
}

// InterceptActivity implements interceptor.WorkerInterceptor.
func (*Interceptor) InterceptActivity(_ context.Context, next interceptor.ActivityInboundInterceptor) interceptor.ActivityInboundInterceptor {
	return &inbound{interceptor.ActivityInboundInterceptorBase{Next: next}}
}

type inbound struct {
	interceptor.ActivityInboundInterceptorBase
}

// ExecuteActivity implements interceptor.ActivityInboundInterceptor.
func (i *inbound) ExecuteActivity(ctx context.Context, in *interceptor.ExecuteActivityInput) (any, error) {
	info := activity.GetInfo(ctx)
	if info.IsLocalActivity || info.HeartbeatTimeout == 0 {
		return i.Next.ExecuteActivity(ctx, in)
	}
	b := &beats{}
	within := context.WithValue(ctx, key{}, b)
	calls, quit := context.WithCancel(context.WithoutCancel(ctx))
	var ended sync.WaitGroup
	ended.Go(func() { b.loop(ctx, calls) })
	defer ended.Wait()
	defer quit()
	return i.Next.ExecuteActivity(within, in)
}

type key struct{}

// beats are the heartbeats of one activity.
type beats struct {
	alone atomic.Bool

	mu      sync.Mutex
	details func() any
	instead []*func() any // what is said now instead of details: the last
	follow  *beats        // whose words these are, if not their own
}

// Ended is the error of an activity that ends with err. Only what the server has canceled ends as canceled, which is never tried again, with
// details for its workflow; what was given up or paused is to go on.
func Ended(ctx context.Context, err error, details any) error {
	if ctx.Err() != nil && temporal.IsCanceledError(context.Cause(ctx)) {
		return temporal.NewCanceledError(details)
	}
	return err
}

// Detach returns a context that outlives the activity of ctx, with what its heartbeats say: see Follow. It ends by cancel alone.
func Detach(ctx context.Context) (context.Context, context.CancelCauseFunc) {
	apart := context.WithValue(context.WithoutCancel(ctx), key{}, &beats{})
	return context.WithCancelCause(apart)
}

// Follow makes the heartbeats of the activity of ctx say what is shown in a context that Detach made.
func Follow(ctx, apart context.Context) {
	b, ok := ctx.Value(key{}).(*beats)
	said, detached := apart.Value(key{}).(*beats)
	if !ok || !detached {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.follow = said
}

// Show makes details what the heartbeats of the activity of ctx say from now on. It does nothing where there are none.
func Show(ctx context.Context, details func() any) {
	b, ok := ctx.Value(key{}).(*beats)
	if !ok {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.details = details
}

// Instead makes heartbeats say something else than what Show made them say, until restore is called. Several may at once.
func Instead(ctx context.Context, details func() any) (restore func()) {
	b, ok := ctx.Value(key{}).(*beats)
	if !ok {
		return func() {}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.instead = append(b.instead, &details)
	return func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.instead = slices.DeleteFunc(b.instead, func(d *func() any) bool { return d == &details })
	}
}

// show is what the next heartbeat says.
func (b *beats) show() []any {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch n := len(b.instead); {
	case n > 0:
		return []any{(*b.instead[n-1])()}
	case b.follow != nil:
		return b.follow.show()
	case b.details != nil:
		return []any{b.details()}
	}
	return nil
}

// loop sends heartbeats of the activity of ctx until calls ends. They outlive ctx: a program that was canceled takes a while to end.
func (b *beats) loop(ctx, calls context.Context) {
	tick := time.Tick(Every)
	heard := time.Now()
	for {
		select {
		case <-tick:
		case <-calls.Done():
			return
		}
		err := send(calls, b.show())
		switch {
		case calls.Err() != nil:
			return
		case err == nil:
			heard = time.Now()
			if ctx.Err() == nil { // the server was back in time
				b.alone.Store(false)
			}
		case ctx.Err() != nil: // it knows
		case isWord(err):
			// The SDK asks for itself, hears the same, and cancels the activity's context with that as the cause.
			activity.RecordHeartbeat(ctx, b.show()...)
		case time.Since(heard) > AloneLimit:
			b.alone.Store(true)
			activity.RecordHeartbeat(ctx, b.show()...) // which ends the activity, unless the server is back
		default:
			activity.GetLogger(ctx).Warn("Temporal did not accept a heartbeat: retrying", "unheard", time.Since(heard), "error", err)
		}
	}
}

// send sends one heartbeat of the activity of ctx.
func send(ctx context.Context, details []any) error {
	c, task := activity.GetClient(ctx), activity.GetInfo(ctx).TaskToken
	ctx, cancel := context.WithTimeout(ctx, 2*Every)
	defer cancel()
	return c.RecordActivityHeartbeat(ctx, task, details...)
}

// isWord reports whether an error of a heartbeat is the server's word that the activity is to end.
func isWord(err error) bool {
	return temporal.IsCanceledError(err) || errors.Is(err, activity.ErrActivityPaused) || errors.Is(err, activity.ErrActivityReset) || isGone(err)
}

// isGone reports whether the server no longer knows the activity.
func isGone(err error) bool {
	var notFound *serviceerror.NotFound
	return errors.As(err, &notFound)
}

// Forgotten reports whether the context of an activity was canceled because the server says that it does not wait for the activity any more.
func Forgotten(ctx context.Context) bool { return ctx.Err() != nil && isGone(context.Cause(ctx)) }

// GivenUp reports whether the context of an activity was canceled because the server does not wait for the activity any more, or was not
// heard of for so long that it does not.
func GivenUp(ctx context.Context) bool {
	b, ok := ctx.Value(key{}).(*beats)
	return Forgotten(ctx) || ctx.Err() != nil && ok && b.alone.Load()
}
