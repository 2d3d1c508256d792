package train

import (
	"encoding/json"
	"time"

	"go.temporal.io/sdk/workflow"

	"github.com/sluiceml/sluice/activities/contract"
	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/fault"
	"github.com/sluiceml/sluice/workflows/durable"
)

// cost is what the generations that have ended have cost.
func (t *train) cost() fault.Costs {
	var sum fault.Costs
	for _, g := range t.carried.Generations {
		sum.USD += g.CostUSD
		sum.Unknown = sum.Unknown || g.PriceUnknown
	}
	return sum
}

// cost is what a generation that has ended has cost.
func cost(g spec.Generation) float64 {
	return float64(g.Nodes) * g.EndedAt.Sub(g.StartedAt).Hours() * g.USDPerHour
}

// withAccount adds to the error of a training what its generations did and cost, or at least the cost. One that says that a worker was lost
// stays as it is, for it must be known by that: the step is tried again.
func (t *train) withAccount(ctx workflow.Context, err error) error {
	if durable.WorkerLost(err) {
		return err
	}
	if len(t.carried.Generations) > 0 && durable.Since(ctx, changeAccount) {
		ctx, _ = workflow.NewDisconnectedContext(ctx)
		in := contract.AccountInput{StepInput: t.in.StepInput, Generations: t.carried.Generations, Unusable: t.carried.Unusable}
		var out json.RawMessage
		if failed := t.remote(ctx, contract.AccountActivity, in, &out); failed == nil {
			return fault.Carry(err, out)
		}
	}
	return fault.WithCost(err, t.cost())
}

// isUnbounded reports whether the run has a budget that a gang of the offer could not be ended by.
func (t *train) isUnbounded(o contract.Offer) bool { return t.in.BudgetUSD > 0 && o.PriceUnknown }

// priced refuses to go on with a gang whose price nobody knows, where the run has a budget: nothing could keep that.
func (t *train) priced(ctx workflow.Context, o contract.Offer) error {
	if !t.isUnbounded(o) {
		return nil
	}
	return t.abandon(ctx, fault.Errorf(fault.Invalid,
		"the run has a budget, but the price of a node of pool %s on %s is not known: set `usd_per_hour` of the pool in the environment, or remove "+
			"`budget` from the pipeline", o.Pool, capacityWords[o.Capacity]))
}

// affords is how long the current generation may last until the step has cost what it may; ok is false when there is no such limit.
func (t *train) affords(ctx workflow.Context) (left time.Duration, ok bool) {
	perHour := float64(t.current.Nodes) * t.current.USDPerHour
	if t.in.BudgetUSD <= 0 || perHour <= 0 {
		return 0, false
	}
	hours := (t.in.BudgetUSD - t.cost().USD) / perHour
	const ever = 365 * 24
	return time.Duration(min(hours, ever)*float64(time.Hour)) - workflow.Now(ctx).Sub(t.current.StartedAt), true
}
