package durable

import (
	"go.temporal.io/sdk/workflow"

	"github.com/sluiceml/sluice/internal/telemetry"
)

// Count counts n of a metric, in its unit. The SDK's handler counts nothing again in a replay.
func Count(ctx workflow.Context, metric telemetry.Metric, n int64, labels map[string]string) {
	workflow.GetMetricsHandler(ctx).WithTags(labels).Counter(metric.Name).Inc(n)
}
