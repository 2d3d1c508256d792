// Package durable is what workflow code says in place of sleeping, retrying and logging: timers that Temporal's UI names, pauses between
// looks, budgets of retries, changes by version, how long a history may get, and what the UI shows of it all.
package durable

import (
	"errors"

	"go.temporal.io/sdk/workflow"
)

// LongHistory is how many events a workflow's history may have before nothing new is begun in it: what is under way ends, and the rest
// goes on in a new history. Histories then stay under 4,096 events.
const LongHistory = 2500

// ErrLong ends a wait for the reason that the history has become long from it: the workflow is to go on in a new one.
var ErrLong = errors.New("the history is long")

// Before is when builds took a workflow's history for long that did not know ChangeLong.
type Before int

// By nothing, by LongHistory alone, or by the server's suggestion alone.
const (
	NeverLong Before = iota
	LongByLength
	LongBySuggestion
)

// growthKey is under which a context keeps how a history grows.
type growthKey struct{}

// growth is how a history grows: events is its length when the workflow task began, added is what the workflow has added since. The SDK counts
// none of that before the next task, and a graph of which nothing runs, because all of it fails, is canceled or is reused, is done in one.
type growth struct{ events, added int }

// Measured returns the context of a workflow whose steps may be many: IsLong then knows of the local activities and the ends of steps that are
// added within one workflow task. What else a step may add is little, for which the distance from LongHistory to 4,096 is enough.
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

// IsLong reports whether nothing new is to begin in a workflow's history: because of its events, or because the server suggests to
// continue in a new one, which also goes by bytes, and by limits that an operator may have lowered.
func IsLong(ctx workflow.Context, before Before) bool {
	events, suggested := length(ctx)
	switch {
	case events && before == LongByLength, suggested && before == LongBySuggestion:
		return true
	case events || suggested:
		return Since(ctx, ChangeLong)
	}
	g := growthOf(ctx)
	return g != nil && g.events+g.added >= LongHistory && Since(ctx, changeGrowth)
}

// IsLongSince is IsLong where workflows that do not know of a change never looked at the length of their history.
func IsLongSince(ctx workflow.Context, change string) bool {
	events, suggested := length(ctx)
	return (events || suggested) && Since(ctx, change)
}

// length reports which of the two says that a history is long: its events, or the server.
func length(ctx workflow.Context) (events, suggested bool) {
	info := workflow.GetInfo(ctx)
	return info.GetCurrentHistoryLength() >= LongHistory, info.GetContinueAsNewSuggested()
}
