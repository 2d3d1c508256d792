package durable

import (
	"strings"
	"testing"
	"time"

	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/workflow"

	"github.com/sluiceml/sluice/store/record"
)

// TestAdmit: commands with many bytes are spread over workflow tasks, also when all want to be issued at once, or the workflow is canceled.
// A workflow that has few does not wait.
func TestAdmit(t *testing.T) {
	for name, tt := range map[string]struct {
		commands, size int
		canceled       bool
		tasks          int // at least
	}{
		"few":      {commands: 100, size: 100, tasks: 1},
		"many":     {commands: 2500, size: 1000, tasks: 5},
		"large":    {commands: 500, size: 4000, tasks: 2},
		"stored":   {commands: 500, size: 50 * record.PayloadLimit, tasks: 4},
		"canceled": {commands: 2500, size: 1000, canceled: true, tasks: 5},
	} {
		t.Run(name, func(t *testing.T) {
			var suite testsuite.WorkflowTestSuite
			env := suite.NewTestWorkflowEnvironment()
			tasks, issued := 1, 0
			env.SetOnTimerScheduledListener(func(string, time.Duration) { tasks++ })
			env.ExecuteWorkflow(func(ctx workflow.Context) error {
				ctx, cancel := workflow.WithCancel(Measured(ctx))
				if tt.canceled {
					cancel()
				}
				for range tt.commands {
					workflow.Go(ctx, func(ctx workflow.Context) {
						Admit(ctx, strings.Repeat("x", tt.size))
						issued++
					})
				}
				waiting, _ := workflow.NewDisconnectedContext(ctx)
				return workflow.Await(waiting, func() bool { return issued == tt.commands })
			})
			if err := env.GetWorkflowError(); err != nil {
				t.Fatal(err)
			}
			total := tt.commands * (min(tt.size, record.PayloadLimit) + perCommand)
			if tasks < tt.tasks || tasks > total/maxTask+1 {
				t.Errorf("%d bytes take %d workflow tasks, want at least %d", total, tasks, tt.tasks)
			}
		})
	}
}
