package durable

import (
	"testing"

	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/workflow"
)

// TestSince: a change applies to a workflow that begins now, and not to one whose history an earlier build began.
func TestSince(t *testing.T) {
	for name, tt := range map[string]struct {
		version workflow.Version
		want    bool
	}{"begins now": {1, true}, "an earlier build began it": {workflow.DefaultVersion, false}} {
		t.Run(name, func(t *testing.T) {
			var suite testsuite.WorkflowTestSuite
			env := suite.NewTestWorkflowEnvironment()
			env.OnGetVersion("change", workflow.DefaultVersion, workflow.Version(1)).Return(tt.version)
			env.ExecuteWorkflow(func(ctx workflow.Context) (bool, error) { return Since(ctx, "change"), nil })
			var got bool
			if err := env.GetWorkflowResult(&got); err != nil || got != tt.want {
				t.Errorf("%v, %v; want %v", got, err, tt.want)
			}
		})
	}
}
