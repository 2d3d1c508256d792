package durable

import (
	"time"

	"go.temporal.io/sdk/workflow"
)

// hasteKey is under which a context keeps how many times as often as usual a workflow looks again at what it waits for.
type hasteKey struct{}

// Hasten returns a context in which workflows look so many times as often at what they wait for. It is for tests of long waits.
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
