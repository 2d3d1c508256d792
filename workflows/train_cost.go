package workflows

import (
	"time"

	"go.temporal.io/sdk/workflow"

	"github.com/sluiceml/sluice/activities/contract"
	"github.com/sluiceml/sluice/dsl"
)

// costUSD is what the generations that have ended have cost.
func (t *train) costUSD() float64 {
	var usd float64
	for _, g := range t.carried.Generations {
		usd += g.CostUSD
	}
	return usd
}

// cost is what a generation that has ended has cost.
func cost(g dsl.Generation) float64 {
	return float64(g.Nodes) * g.EndedAt.Sub(g.StartedAt).Hours() * g.USDPerHour
}

// withCost adds to the error of a training what it has cost. One that says that a worker was lost stays as it is, for it must be known by
// that: the step is tried again.
func (t *train) withCost(err error) error {
	if workerLost(err) {
		return err
	}
	return contract.WithCost(err, t.costUSD())
}

// affords is how long the current generation may last until the step has cost what it may; ok is false when there is no such limit.
func (t *train) affords(ctx workflow.Context) (left time.Duration, ok bool) {
	perHour := float64(t.current.Nodes) * t.current.USDPerHour
	if t.in.BudgetUSD <= 0 || perHour <= 0 {
		return 0, false
	}
	hours := (t.in.BudgetUSD - t.costUSD()) / perHour
	const ever = 365 * 24
	return time.Duration(min(hours, ever)*float64(time.Hour)) - workflow.Now(ctx).Sub(t.current.StartedAt), true
}
