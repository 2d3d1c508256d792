package durable

import (
	"go.temporal.io/sdk/workflow"

	"github.com/sluiceml/sluice/internal/telemetry"
)

// Count adds n to a metric, in its unit. The SDK's handler ignores replays.
func Count(ctx workflow.Context, metric telemetry.Metric, n int64, labels map[string]string) {
	workflow.GetMetricsHandler(ctx).WithTags(labels).Counter(metric.Name).Inc(n)
}
