package gang

import (
	"cmp"
	"math"

	"go.temporal.io/sdk/workflow"

	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/telemetry"
	"github.com/sluiceml/sluice/training/protocol"
	"github.com/sluiceml/sluice/workflows/durable"
)

// countGeneration counts a generation of a gang that has ended.
func countGeneration(ctx workflow.Context, g spec.Generation) {
	durable.Count(ctx, telemetry.TrainGenerations, 1, map[string]string{"end": string(g.End)})
	countSteps(ctx, g.ToStep-g.FromStep)
	if g.CostUSD > 0 {
		durable.Count(ctx, telemetry.TrainCost, int64(math.Round(g.CostUSD/telemetry.TrainCost.Unit)), map[string]string{"capacity": g.Capacity})
	}
}

// countSteps counts training steps: those of a generation whose nodes are lost are known when the next one looks at what they left.
func countSteps(ctx workflow.Context, n int64) {
	durable.Count(ctx, telemetry.TrainSteps, max(0, n), nil)
}

// countLost counts the steps of a generation that the next one does again.
func countLost(ctx workflow.Context, steps int64) {
	durable.Count(ctx, telemetry.TrainStepsLost, steps, nil)
}

// countNotice counts a notice that a node is to be left.
func countNotice(ctx workflow.Context, notice protocol.Notice) {
	durable.Count(ctx, telemetry.TrainNotices, 1, map[string]string{"cause": cmp.Or(notice.Cause, telemetry.CausePreemption)})
}
