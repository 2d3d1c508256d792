package workflows

import (
	"testing"

	"github.com/sluiceml/sluice/activities/contract"
	"github.com/sluiceml/sluice/internal/historytest"
)

// Recorded by TestPipelineRuns in worker/.
func TestPipelineReplays(t *testing.T) {
	historytest.Replay(t, "testdata/pipeline-*.json", contract.PipelineWorkflow, Pipeline)
}
