package durable

import "go.temporal.io/sdk/workflow"

// Changes that apply to workflows of all kinds, by the names under which workflow.GetVersion records them in histories. A history that an
// earlier build began continues as that build began it.
const (
	// ChangeLong: more workflows continue in a new history, and all of them also when the server suggests it.
	ChangeLong = "long-history"
	// changeStopTimers: the timer of a wait ends with the wait.
	changeStopTimers = "stop-timers"
	// changeVerdicts: the history records how steps, generations and stages ended.
	changeVerdicts = "verdicts"
	// changeGrowth: what a workflow task adds to a history counts before the next task begins.
	changeGrowth = "growth"
)

// Since reports whether a change applies to this workflow. Call it only where the change makes a difference, because it adds an event to
// the history.
func Since(ctx workflow.Context, change string) bool {
	return workflow.GetVersion(ctx, change, workflow.DefaultVersion, 1) != workflow.DefaultVersion
}
