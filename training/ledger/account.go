package ledger

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/training"
	"github.com/sluiceml/sluice/training/checkpoint"
)

// Account says what came of the time of each node, in each generation that it ran, and what that cost.
//
// A gang costs from when its pool began to pay for a node until that was released or lost. Where it ran several generations, each has the
// time until it ended. In a generation, the nodes make steps from when its ranks were started until they had ended or were told to stop; where
// it reported more than one step, the time before the first, by the pace of those that followed, does not belong to that, for it is what the
// program took to start and to restore the checkpoint. The time of making steps is divided by steps: the share of those that the outputs
// are made of, or the last checkpoint of a training that did not finish, is useful, and that of the others is lost. Work that a program
// reports no steps of is useful if it finished. All other time is overhead. The nodes of a gang that ran no generation never started.
//
// progress is how far each generation is known to have come, and now ends what is still open.
func Account(entries []Entry, generations []spec.Generation, progress []checkpoint.Progress, now time.Time) []spec.NodeCost {
	ran := make([][]int, len(entries)) // by entry, the places of its generations
	for i, g := range generations {
		if at := entryOf(entries, g); at >= 0 {
			ran[at] = append(ran[at], i)
		}
	}
	worked := workOf(generations, progress)
	var costs []spec.NodeCost
	for i, e := range entries {
		for _, n := range e.Gang.Nodes {
			if n.EndedAt.IsZero() {
				n.EndedAt = now
			}
			costs = append(costs, costsOf(e, n, worked, ran[i])...)
		}
	}
	slices.SortStableFunc(costs, func(a, b spec.NodeCost) int { return cmp.Compare(a.Generation, b.Generation) })
	return costs
}

// entryOf is the gang that a generation ran on: the newest that was handed out for it, or for the one whose gang it went on with. It is -1
// where there is none.
func entryOf(entries []Entry, g spec.Generation) int {
	at := -1
	for i := range entries {
		e := &entries[i]
		if e.Whole && e.Generation == cmp.Or(g.Gang, g.Index) && e.Pool == g.Pool {
			at = i
		}
	}
	return at
}

// work is what a generation made, and when.
type work struct {
	spec.Generation
	ran      bool      // its ranks were started
	from, to time.Time // while it made steps
	useful   float64   // the share of that time
	lost     float64
}

func workOf(generations []spec.Generation, progress []checkpoint.Progress) []work {
	all := make([]work, len(generations))
	kept := int64(math.MaxInt64) // what later generations began with at least
	for i, g := range slices.Backward(generations) {
		w := work{Generation: g, from: g.RanAt, to: g.StoppedAt}
		w.ran = !g.RanAt.IsZero()
		if p := progress[i]; p.Pace() > 0 {
			w.from = later(w.from, p.FirstAt.Add(-time.Duration(p.FirstStep-g.FromStep)*p.Pace()))
		}
		if i == len(generations)-1 && g.End != spec.EndFinished {
			kept = g.CommittedStep
		}
		done := float64(g.ToStep - g.FromStep)
		switch {
		case done > 0:
			w.useful = float64(max(0, min(g.ToStep, kept)-g.FromStep)) / done
			w.lost = 1 - w.useful
		case g.End == spec.EndFinished || g.CommittedStep > g.FromStep:
			w.useful = 1
		}
		kept = min(kept, g.FromStep)
		all[i] = w
	}
	return all
}

// costsOf divides the time of a node among the generations that it ran, and what came of it.
func costsOf(e Entry, n training.Node, worked []work, ran []int) []spec.NodeCost {
	cost := spec.NodeCost{
		Node: n.Name, Generation: e.Generation, Pool: e.Pool, Type: n.Type, Zone: n.Zone, Capacity: e.Gang.Capacity,
		BeganAt: n.BeganAt, EndedAt: n.EndedAt, USDPerHour: e.Gang.USDPerHour, PriceUnknown: e.PriceUnknown,
	}
	var costs []spec.NodeCost
	add := func(outcome spec.Outcome, seconds float64) {
		if seconds <= 0 {
			return
		}
		cost.Outcome, cost.Seconds = outcome, seconds
		if cost.CostUSD = nil; !e.PriceUnknown {
			usd := seconds / time.Hour.Seconds() * cost.USDPerHour
			cost.CostUSD = &usd
		}
		costs = append(costs, cost)
	}
	if !slices.ContainsFunc(ran, func(i int) bool { return worked[i].ran }) {
		add(spec.OutcomeNeverStarted, n.EndedAt.Sub(n.BeganAt).Seconds())
		return costs
	}
	for j, i := range ran {
		w := worked[i]
		cost.Generation, cost.EndedAt = w.Index, n.EndedAt
		if j < len(ran)-1 {
			cost.EndedAt = later(cost.BeganAt, earlier(w.EndedAt, n.EndedAt))
		}
		from, to := later(w.from, cost.BeganAt), earlier(w.to, cost.EndedAt)
		making := max(0, to.Sub(from).Seconds())
		add(spec.OutcomeUseful, making*w.useful)
		add(spec.OutcomeLost, making*w.lost)
		add(spec.OutcomeOverhead, cost.EndedAt.Sub(cost.BeganAt).Seconds()-making*(w.useful+w.lost))
		cost.BeganAt = cost.EndedAt
	}
	return costs
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
