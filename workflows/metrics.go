package workflows

import (
	"go.temporal.io/sdk/workflow"

	"github.com/sluiceml/sluice/activities/contract"
	"github.com/sluiceml/sluice/dsl"
)

// What workers count for Prometheus (docs/metrics.md), by the SDK's handler, which counts nothing again in a replay. It adds the labels
// namespace, task_queue and workflow_type, and the suffix _total.
const (
	metricRuns        = "sluice_runs"
	metricSteps       = "sluice_steps"
	metricChecks      = "sluice_gate_checks"
	metricGenerations = "sluice_train_generations"
	metricTrained     = "sluice_train_steps"
	metricLost        = "sluice_train_steps_lost"
)

func increase(ctx workflow.Context, metric string, n int64, labels map[string]string) {
	workflow.GetMetricsHandler(ctx).WithTags(labels).Counter(metric).Inc(n)
}

// countRun counts a run that has ended.
func countRun(ctx workflow.Context, status dsl.Status) {
	increase(ctx, metricRuns, 1, map[string]string{"status": string(status)})
}

// countStep counts a step that has ended, and the conditions of its gate.
func countStep(ctx workflow.Context, kind dsl.Kind, word contract.Judged) {
	increase(ctx, metricSteps, 1, map[string]string{"kind": string(kind), "status": string(word.Status)})
	for _, check := range word.Checks {
		increase(ctx, metricChecks, 1, map[string]string{"verdict": string(check.Verdict)})
	}
}

// countGeneration counts a generation of a gang that has ended.
func countGeneration(ctx workflow.Context, g dsl.Generation) {
	increase(ctx, metricGenerations, 1, map[string]string{"end": string(g.End)})
	increase(ctx, metricTrained, max(0, g.ToStep-g.FromStep), nil)
}

// countLost counts the steps of a generation that the next one does again.
func countLost(ctx workflow.Context, g dsl.Generation) { increase(ctx, metricLost, g.StepsLost, nil) }
