package ledger

import (
	"cmp"
	"slices"

	"github.com/sluiceml/sluice/dsl/spec"
)

// Sum adds up what nodes cost: those that are alike, and all by outcome. Where the price of one is unknown, so is the sum.
func Sum(costs []spec.NodeCost) ([]spec.CostLine, spec.Outcomes) {
	lines := []spec.CostLine{}
	zero := spec.Spent{CostUSD: new(float64)}
	all := spec.Outcomes{Useful: zero, Lost: zero, Overhead: zero, NeverStarted: zero}
	of := map[spec.Outcome]*spec.Spent{
		spec.OutcomeUseful: &all.Useful, spec.OutcomeLost: &all.Lost, spec.OutcomeOverhead: &all.Overhead, spec.OutcomeNeverStarted: &all.NeverStarted,
	}
	for _, c := range costs {
		spent := spec.Spent{NodeSeconds: c.Seconds, CostUSD: c.CostUSD}
		*of[c.Outcome] = of[c.Outcome].Add(spent)
		like := spec.CostLine{Pool: c.Pool, Type: c.Type, Zone: c.Zone, Capacity: c.Capacity, Outcome: c.Outcome, Spent: zero}
		i := slices.IndexFunc(lines, func(l spec.CostLine) bool { return compare(l, like) == 0 })
		if i < 0 {
			i, lines = len(lines), append(lines, like)
		}
		lines[i].Spent = lines[i].Add(spent)
	}
	slices.SortFunc(lines, compare)
	return lines, all
}

// compare orders lines by what is alike in them.
func compare(a, b spec.CostLine) int {
	return cmp.Or(cmp.Compare(a.Pool, b.Pool), cmp.Compare(a.Type, b.Type), cmp.Compare(a.Zone, b.Zone), cmp.Compare(a.Capacity, b.Capacity),
		cmp.Compare(a.Outcome, b.Outcome))
}
