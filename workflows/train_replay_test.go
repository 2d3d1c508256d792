package workflows

import (
	"path/filepath"
	"testing"

	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/sluiceml/sluice/activities/contract"
)

// Histories that were recorded from real trainings replay: a workflow that is under way survives a new release. They are recorded by
// the integration tests, see -record there.
func TestTrainReplays(t *testing.T) {
	histories, err := filepath.Glob("testdata/train-*.json")
	if err != nil || len(histories) == 0 {
		t.Fatalf("%d recorded histories, %v", len(histories), err)
	}
	for _, path := range histories {
		t.Run(filepath.Base(path), func(t *testing.T) {
			replayer := worker.NewWorkflowReplayer()
			replayer.RegisterWorkflowWithOptions(Train, workflow.RegisterOptions{Name: contract.TrainWorkflow})
			if err := replayer.ReplayWorkflowHistoryFromJSONFile(nil, path); err != nil {
				t.Error(err)
			}
		})
	}
}
