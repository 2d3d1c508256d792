package gang

import (
	"encoding/json"
	"slices"
	"time"

	"go.temporal.io/sdk/workflow"

	"github.com/sluiceml/sluice/activities/contract"
	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/fault"
	"github.com/sluiceml/sluice/training/ledger"
	"github.com/sluiceml/sluice/workflows/durable"
)

// cost returns the cost of the step so far: its ended generations, and gangs on which no generation ran.
func (t *train) cost() fault.Costs {
	sum := t.carried.Unstarted.Add(t.before)
	for _, g := range t.carried.Generations {
		sum = sum.Add(fault.Costs{USD: g.CostUSD, Unknown: g.PriceUnknown})
	}
	return sum
}

// settleCost computes the cost of an ended generation, with what was paid in vain before it began.
func (l *generation) settleCost(released contract.Released) {
	g := &l.current
	var hours float64
	for _, n := range l.gang.Nodes {
		since := g.StartedAt
		if n.BeganAt.After(since) {
			since = n.BeganAt
		}
		hours += g.EndedAt.Sub(since).Hours()
	}
	spent := paidSince(l.paid, released, hours*g.USDPerHour)
	g.CostUSD = l.before.USD + spent
	g.PriceUnknown = g.PriceUnknown || l.before.Unknown || released.Paid.Unknown
	l.paid.USD += spent
	l.before = fault.Costs{}
}

// paidSince is what has been paid for a gang since that came to before: as its pool said when it was released, or by the price while it is
// kept.
func paidSince(before fault.Costs, released contract.Released, byPrice float64) float64 {
	if released == (contract.Released{}) {
		return byPrice
	}
	return max(0, released.Paid.USD-before.USD)
}

// reconsider takes back that the budget ended the generation where its nodes were gone before they had used that up: while no worker was
// there time went on, and nothing was paid for.
func (l *generation) reconsider(end trainEnd, released contract.Released) trainEnd {
	if end.how != spec.EndBudget || released == (contract.Released{}) || l.cost().USD+paidSince(l.paid, released, 0) >= l.in.BudgetUSD {
		return end
	}
	if lost := end; l.wasLost(&lost) {
		lost.failure, lost.pause = nil, 0
		l.budget.Used-- // see charge
		return lost
	}
	return end
}

// lost are the nodes of the generation that the pool has seen to be gone.
func (l *generation) lost() ledger.Lost {
	if l.loss == nil {
		return ledger.Lost{}
	}
	lost := ledger.Lost{At: l.lostAt}
	for i, n := range l.gang.Nodes {
		if l.nodes[i].gone && (len(l.loss.Nodes) == 0 || slices.Contains(l.loss.Nodes, i)) {
			lost.Queues = append(lost.Queues, n.Queue)
		}
	}
	return lost
}

// withAccount adds the account of the generations and their cost, or at least the cost, to the error of a training. An error that reports a
// lost worker is not changed, because the step is retried by its type.
func (t *train) withAccount(ctx workflow.Context, err error) error {
	if durable.WorkerLost(err) {
		return err
	}
	if t.hasAccount() {
		ctx, _ = workflow.NewDisconnectedContext(ctx)
		in := contract.AccountInput{StepInput: t.in.StepInput, Generations: t.carried.Generations, Unusable: t.carried.Unusable}
		var out json.RawMessage
		if failed := t.remote(ctx, contract.AccountActivity, in, &out); failed == nil {
			return fault.Carry(err, out)
		}
	}
	return fault.WithCost(err, t.cost())
}

// hasAccount reports whether there is something to account for.
func (t *train) hasAccount() bool {
	return len(t.carried.Generations) > 0 || t.carried.Unstarted != (fault.Costs{})
}

// isUnbounded reports whether the run has a budget that a gang of the offer could not be ended by.
func (t *train) isUnbounded(o contract.Offer) bool { return t.in.BudgetUSD > 0 && o.PriceUnknown }

// priced rejects a gang whose price is unknown if the run has a budget, because the budget could not be enforced.
func (t *train) priced(ctx workflow.Context, o contract.Offer) error {
	if !t.isUnbounded(o) {
		return nil
	}
	return t.abandon(ctx, fault.Errorf(fault.Invalid,
		"the run has a budget, but the price of a node of pool %s on %s is not known: set `usd_per_hour` of the pool in the environment, or remove "+
			"`budget` from the pipeline", o.Pool, capacityWords[o.Capacity]))
}

// affords returns how long the current generation may last within the step's budget; ok is false if there is no limit.
func (t *train) affords(ctx workflow.Context) (left time.Duration, ok bool) {
	perHour := float64(t.current.Nodes) * t.current.USDPerHour
	if t.in.BudgetUSD <= 0 || perHour <= 0 {
		return 0, false
	}
	hours := (t.in.BudgetUSD - t.cost().USD) / perHour
	const ever = 365 * 24
	return time.Duration(min(hours, ever)*float64(time.Hour)) - workflow.Now(ctx).Sub(t.current.StartedAt), true
}
