package workflows

import (
	"go.temporal.io/sdk/workflow"

	"github.com/sluiceml/sluice/activities/contract"
	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/telemetry"
	"github.com/sluiceml/sluice/workflows/durable"
)

// countRun counts a run that has ended.
func countRun(ctx workflow.Context, status spec.Status) {
	durable.Count(ctx, telemetry.RunsEnded, 1, map[string]string{"status": string(status)})
}

// countStep counts a step that has ended, and the conditions of its gate.
func countStep(ctx workflow.Context, kind spec.Kind, verdict contract.StepVerdict) {
	durable.Count(ctx, telemetry.StepsEnded, 1, map[string]string{"kind": string(kind), "status": string(verdict.Status)})
	for _, check := range verdict.Checks {
		durable.Count(ctx, telemetry.GateChecks, 1, map[string]string{"verdict": string(check.Verdict)})
	}
}

// countRows counts the rows of a finished cleaning. rows is nil for other steps.
func countRows(ctx workflow.Context, rows *spec.Rows) {
	if rows == nil {
		return
	}
	durable.Count(ctx, telemetry.Rows, rows.Kept, map[string]string{"outcome": "kept"})
	durable.Count(ctx, telemetry.Rows, rows.Dropped, map[string]string{"outcome": "dropped"})
	durable.Count(ctx, telemetry.Rows, rows.Rejected, map[string]string{"outcome": "rejected"})
	durable.Count(ctx, telemetry.RowsReused, rows.Reused, nil)
}
