package durable

import "go.temporal.io/sdk/workflow"

// Changes of what workflows of all kinds do, by the names under which workflow.GetVersion puts them into histories. A history that an
// earlier build began goes on as that began it.
const (
	// ChangeLong: more workflows go on in a new history, and all do also when the server suggests it.
	ChangeLong = "long-history"
	// changeStopTimers: the timer of a wait ends with the wait.
	changeStopTimers = "stop-timers"
	// changeVerdicts: the history says how steps, generations and stages ended.
	changeVerdicts = "verdicts"
	// changeGrowth: what a workflow task adds to a history counts before the next one begins.
	changeGrowth = "growth"
)

// Since reports whether a change holds for this workflow. It is asked only where the change makes a difference, for it adds to history.
func Since(ctx workflow.Context, change string) bool {
	return workflow.GetVersion(ctx, change, workflow.DefaultVersion, 1) != workflow.DefaultVersion
}
