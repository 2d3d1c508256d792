// Package durable has what workflow code uses for sleeping, retrying and logging: timers with names for Temporal's UI, intervals between
// checks, budgets of retries, versioned changes, the limit of a history's length, and what the UI shows.
package durable

import (
	"errors"

	"go.temporal.io/sdk/workflow"
)

// LongHistory is the number of events from which on a workflow starts nothing new: what is running ends, and the rest continues in a new
// history. Histories then stay below 4,096 events.
const LongHistory = 2500

// ErrLong ends a wait because the history has become long: the workflow must continue in a new one.
var ErrLong = errors.New("the history is long")

// growthKey is the context key of the growth of a history.
type growthKey struct{}

// growth is the growth of a history: events is its length when the workflow task began, added is how many events the workflow has added since,
// and bytes is how much their payloads have. The SDK counts the latter only in the next task, and one task can go through a whole graph if
// its steps are skipped, canceled or reused. turn is the timer that ends the task when these are many bytes.
type growth struct {
	events, added, bytes int
	turn                 workflow.Future
}

// Measured returns the context of a workflow that may have many steps or nodes: IsLong then includes the local activities and ends of steps
// that the current workflow task has added, and Admit bounds their bytes. Other additions are few, and the distance from LongHistory to 4,096
// is enough for them.
func Measured(ctx workflow.Context) workflow.Context {
	return workflow.WithValue(ctx, growthKey{}, &growth{})
}

// grow counts an event that the workflow adds now.
func grow(ctx workflow.Context) {
	if g := growthOf(ctx); g != nil {
		g.added++
	}
}

func growthOf(ctx workflow.Context) *growth {
	g, ok := ctx.Value(growthKey{}).(*growth)
	if events := workflow.GetInfo(ctx).GetCurrentHistoryLength(); ok && g.events != events {
		*g = growth{events: events}
	}
	return g
}

// IsLong reports whether a workflow should start nothing new in its history: because of its events, or because the server suggests to
// continue as new, which also depends on bytes and on limits that an operator may have lowered.
func IsLong(ctx workflow.Context) bool {
	info := workflow.GetInfo(ctx)
	if info.GetCurrentHistoryLength() >= LongHistory || info.GetContinueAsNewSuggested() {
		return true
	}
	g := growthOf(ctx)
	return g != nil && g.events+g.added >= LongHistory
}
