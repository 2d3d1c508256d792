package workflows

import (
	"errors"

	"go.temporal.io/sdk/workflow"
)

// longHistory is how many events a workflow's history may have before nothing new is begun in it: what is under way ends, and the rest
// goes on in a new history. Histories then stay under 4,096 events.
const longHistory = 2500

// errLongHistory ends a wait for the reason that the history has become long from it: the workflow is to go on in a new one.
var errLongHistory = errors.New("the history is long")

// formerly is when earlier builds took a workflow's history for long.
type formerly int

const (
	neverLong formerly = iota
	longByLength
	longBySuggestion
)

// isLong reports whether nothing new is to begin in a workflow's history: because of its events, or because the server suggests to
// continue in a new one, which also goes by bytes, and by limits that an operator may have lowered.
func isLong(ctx workflow.Context, before formerly) bool {
	info := workflow.GetInfo(ctx)
	length, suggested := info.GetCurrentHistoryLength() >= longHistory, info.GetContinueAsNewSuggested()
	switch {
	case length && before == longByLength, suggested && before == longBySuggestion:
		return true
	case length || suggested:
		return since(ctx, changeLong)
	}
	return false
}
