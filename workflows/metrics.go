package workflows

import (
	"cmp"
	"math"

	"go.temporal.io/sdk/workflow"

	"github.com/sluiceml/sluice/activities/contract"
	"github.com/sluiceml/sluice/dsl"
	"github.com/sluiceml/sluice/internal/telemetry"
)

// increase counts n of a metric, in its unit. The SDK's handler counts nothing again in a replay.
func increase(ctx workflow.Context, metric telemetry.Metric, n int64, labels map[string]string) {
	workflow.GetMetricsHandler(ctx).WithTags(labels).Counter(metric.Name).Inc(n)
}

// countRun counts a run that has ended.
func countRun(ctx workflow.Context, status dsl.Status) {
	increase(ctx, telemetry.RunsEnded, 1, map[string]string{"status": string(status)})
}

// countStep counts a step that has ended, and the conditions of its gate.
func countStep(ctx workflow.Context, kind dsl.Kind, word contract.Judged) {
	increase(ctx, telemetry.StepsEnded, 1, map[string]string{"kind": string(kind), "status": string(word.Status)})
	for _, check := range word.Checks {
		increase(ctx, telemetry.GateChecks, 1, map[string]string{"verdict": string(check.Verdict)})
	}
}

// countRows counts the rows of a cleaning that has been done; nil for any other step, and of a worker of an earlier build.
func countRows(ctx workflow.Context, rows *dsl.Rows) {
	if rows == nil {
		return
	}
	increase(ctx, telemetry.Rows, rows.Kept, map[string]string{"outcome": "kept"})
	increase(ctx, telemetry.Rows, rows.Dropped, map[string]string{"outcome": "dropped"})
	increase(ctx, telemetry.Rows, rows.Rejected, map[string]string{"outcome": "rejected"})
	increase(ctx, telemetry.RowsReused, rows.Reused, nil)
}

// countGeneration counts a generation of a gang that has ended.
func countGeneration(ctx workflow.Context, g dsl.Generation) {
	increase(ctx, telemetry.TrainGenerations, 1, map[string]string{"end": string(g.End)})
	countSteps(ctx, g.ToStep-g.FromStep)
	if g.CostUSD > 0 {
		increase(ctx, telemetry.TrainCost, int64(math.Round(g.CostUSD/telemetry.TrainCost.Unit)), map[string]string{"capacity": g.Capacity})
	}
}

// countSteps counts training steps: those of a generation whose nodes are lost are known when the next one looks at what they left.
func countSteps(ctx workflow.Context, n int64) { increase(ctx, telemetry.TrainSteps, max(0, n), nil) }

// countLost counts the steps of a generation that the next one does again.
func countLost(ctx workflow.Context, g dsl.Generation) {
	increase(ctx, telemetry.TrainStepsLost, g.StepsLost, nil)
}

// countNotice counts a notice that a node is to be left.
func countNotice(ctx workflow.Context, notice contract.Notice) {
	increase(ctx, telemetry.TrainNotices, 1, map[string]string{"cause": cmp.Or(notice.Cause, telemetry.CausePreemption)})
}
