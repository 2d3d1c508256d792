package gang

import (
	"testing"

	"github.com/sluiceml/sluice/activities/contract"
	"github.com/sluiceml/sluice/internal/testing/historytest"
)

// Recorded by TestTrainSurvivesInterruptions, TestTrainFailsWithTheUsersError, TestTrainCancelLeavesNothing, TestTrainKeepsItsDeadline,
// TestTrainMovesBackToSpot, TestTrainLeavesBrokenGPU and TestTrainReleasesIdleGPUs in integration/.
func TestTrainReplays(t *testing.T) {
	historytest.Replay(t, "../testdata/train-*.json*", contract.TrainWorkflow, Train)
}
