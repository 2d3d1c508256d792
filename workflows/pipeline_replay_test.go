package workflows

import (
	"testing"

	"github.com/sluiceml/sluice/activities/contract"
	"github.com/sluiceml/sluice/internal/testing/historytest"
)

// Recorded by TestPipelineRuns and TestWaitsReachNoLimit in worker/, and TestEnds, TestContinued, TestCancels and TestLostLane in
// integration/, as are those below. *-polled*, and rollout-undecided, are of a build that knew no change of versions.go, on a server that
// suggested new histories early; *-older are of that build, too, which ended these runs otherwise.
func TestPipelineReplays(t *testing.T) {
	historytest.Replay(t, "testdata/pipeline-*.json*", contract.PipelineWorkflow, Pipeline)
}

func TestLaneReplays(t *testing.T) {
	historytest.Replay(t, "testdata/lane-*.json*", contract.LaneWorkflow, Lane)
}

func TestApprovalReplays(t *testing.T) {
	historytest.Replay(t, "testdata/approval-*.json", contract.ApprovalWorkflow, Approval)
}

// Recorded by TestOutputTrigger and TestWatchIsOne in worker/.
func TestWatchReplays(t *testing.T) {
	historytest.Replay(t, "testdata/watch-*.json", contract.WatchWorkflow, Watch)
}

func TestLockReplays(t *testing.T) {
	historytest.Replay(t, "testdata/lock-*.json", contract.LockWorkflow, Lock)
}
