package durable

import "go.temporal.io/sdk/workflow"

// Since reports whether a change applies to this workflow: a history that an earlier build began continues as that build began it. change is
// the name under which workflow.GetVersion records it in the history. Call Since only where the change makes a difference, because it adds
// an event to the history.
func Since(ctx workflow.Context, change string) bool {
	return workflow.GetVersion(ctx, change, workflow.DefaultVersion, 1) != workflow.DefaultVersion
}
