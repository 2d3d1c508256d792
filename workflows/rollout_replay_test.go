package workflows

import (
	"testing"

	"github.com/sluiceml/sluice/activities/contract"
	"github.com/sluiceml/sluice/internal/testing/historytest"
)

// Recorded by TestRolloutRuns and TestWaitsReachNoLimit in worker/.
func TestRolloutReplays(t *testing.T) {
	historytest.Replay(t, "testdata/rollout-*.json", contract.RolloutWorkflow, Rollout)
}
