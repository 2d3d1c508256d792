package durable

import (
	"time"

	"go.temporal.io/sdk/workflow"
)

// hasteKey is the context key of the factor by which a workflow checks more often than usual.
type hasteKey struct{}

// Hasten returns a context in which workflows check that many times as often. It is for tests of long waits.
func Hasten(ctx workflow.Context, times int) workflow.Context {
	return workflow.WithValue(ctx, hasteKey{}, times)
}

// Every is the interval at which to look again at something.
func Every(ctx workflow.Context, usual time.Duration) time.Duration {
	if times, ok := ctx.Value(hasteKey{}).(int); ok {
		return usual / time.Duration(times)
	}
	return usual
}
