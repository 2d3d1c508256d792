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

// IsLong reports whether nothing new is to begin in a workflow's history: because of its events, or because the server suggests to
// continue in a new one, which also goes by bytes, and by limits that an operator may have lowered.
func IsLong(ctx workflow.Context, before Before) bool {
	info := workflow.GetInfo(ctx)
	length, suggested := info.GetCurrentHistoryLength() >= LongHistory, info.GetContinueAsNewSuggested()
	switch {
	case length && before == LongByLength, suggested && before == LongBySuggestion:
		return true
	case length || suggested:
		return Since(ctx, ChangeLong)
	}
	return false
}
