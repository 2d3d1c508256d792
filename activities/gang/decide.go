package gang

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/sluiceml/sluice/activities/contract"
	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/training"
	"github.com/sluiceml/sluice/training/checkpoint"
	"github.com/sluiceml/sluice/training/policy"
)

const (
	// measuredBack is how many of the last generations the pace and the changeover are measured on.
	measuredBack = 6
	// workMargin is what the work that is left is taken to be more than measured, for what happens after the last step and for nodes
	// that are slower than those before.
	workMargin = 1.05
	// minTick and maxTick bound how often capacity is asked for; between them it is a share of the time there is.
	minTick, maxTick = time.Second, 30 * time.Second
	ticksInWindow    = 500
	// bootsInWindow is the share of the time there is that nodes are taken to need until their first step, before any has made one.
	bootsInWindow = 20
)

// Decide chooses which of the offers to request now, by the policy and the measurements of earlier generations.
func (t *Trainings) Decide(ctx context.Context, in contract.DecideInput) (contract.Choice, error) {
	measured, err := t.measure(ctx, in)
	if err != nil {
		return contract.Choice{}, err
	}
	return choose(in, measured), nil
}

// measurement is what generations of a training have shown of its pace.
type measurement struct {
	pace   time.Duration // of a step; 0 when it is not known
	boot   time.Duration // from getting a gang to its first step
	end    time.Duration // from the last step of a gang to its end
	step   int64         // the last that is known of the current generation
	of     int64         // steps of the whole job, as the script says
	repeat int64         // steps that a generation lost, at most
	gap    int64         // steps between two checkpoints, at most
	fresh  int64         // steps of the current generation since its last checkpoint
}

// measure reads the progress of the last generations. Of several paces and changeovers the slowest counts: the deadline is kept by it.
func (t *Trainings) measure(ctx context.Context, in contract.DecideInput) (measurement, error) {
	m := measurement{step: in.Current.FromStep}
	generations := append(slices.Clone(in.Ended[max(0, len(in.Ended)-measuredBack):]), in.Current)
	for _, g := range generations {
		p, err := checkpoint.GetProgress(ctx, t.Store, training.Key{Run: in.Run, Step: in.Step, Generation: g.Index})
		if err != nil {
			return m, err
		}
		m.of = max(m.of, p.Of)
		m.pace = max(m.pace, p.Pace())
		m.repeat = max(m.repeat, g.StepsLost)
		if !p.FirstAt.IsZero() {
			m.boot = max(m.boot, p.FirstAt.Sub(g.StartedAt))
		}
		if !p.At.IsZero() && !g.EndedAt.IsZero() {
			m.end = max(m.end, g.EndedAt.Sub(p.At))
		}
		if g.Index == in.Current.Index {
			m.step = max(m.step, p.Step)
		}
	}
	// The last two tell how often the program saves: what is longer ago has been removed.
	for _, g := range generations[max(0, len(generations)-2):] {
		committed, err := checkpoint.Reached(ctx, t.Store, training.Key{Run: in.Run, Step: in.Step, Generation: g.Index})
		if err != nil {
			return m, err
		}
		last := g.FromStep
		for _, step := range committed {
			m.gap = max(m.gap, step-last)
			last = max(last, step)
		}
		m.fresh = max(0, m.step-last)
	}
	return m, nil
}

// choose asks the policy.
func choose(in contract.DecideInput, m measurement) contract.Choice {
	s := stateOf(in, m)
	if s.Running != "" && m.pace == 0 {
		return contract.Choice{Tick: s.Tick} // what a move costs is not known yet
	}
	d := policy.Decide(s)
	c := contract.Choice{Review: d.Review, Tick: s.Tick, Waits: s.Running == "" && s.OnDemand && !d.OnDemand, SpotWithin: d.SpotWithin}
	leaves := s.Running == spec.CapacitySpot && !d.Spot
	for _, o := range in.Offers {
		spot := o.Capacity == spec.CapacitySpot
		if spot && d.Spot && s.Running != spec.CapacitySpot || !spot && d.OnDemand && (s.Running == "" || leaves) {
			c.Offers = append(c.Offers, o)
		}
	}
	return c
}

// stateOf is what the policy is told.
func stateOf(in contract.DecideInput, m measurement) policy.State {
	s := policy.State{
		Elapsed: in.Now.Sub(in.BeganAt), Running: in.Current.Capacity, Tick: maxTick,
		Changeover: m.boot + m.end + time.Duration(m.repeat)*m.pace,
	}
	for _, o := range slices.Backward(in.Offers) { // the first of each counts
		if o.Capacity == spec.CapacitySpot {
			s.Spot, s.Prices.Spot = true, o.USDPerHour
		} else {
			s.OnDemand, s.Prices.OnDemand = true, o.USDPerHour
			s.Start += o.StartWithin // pools are asked one after the other
		}
	}
	for _, g := range in.Ended {
		if g.Capacity == spec.CapacitySpot {
			s.SpotUp += g.EndedAt.Sub(g.StartedAt)
			if g.End == spec.EndNotice || g.End == spec.EndNodeLost {
				s.SpotLosses++
			}
		}
	}
	if in.Deadline.IsZero() {
		return s
	}
	s.Deadline, s.Window, s.Left = true, in.Deadline.Sub(in.BeganAt), in.Deadline.Sub(in.Now)
	s.Work, s.TotalWork = workOf(in, m)
	s.Tick = min(max(s.Window/ticksInWindow, minTick), maxTick)
	s.Risk = time.Duration(max(0, m.gap-m.repeat)) * m.pace // what was lost is in the changeover
	if s.Running == spec.CapacitySpot {
		s.Changeover = m.boot + m.end
		s.Risk = time.Duration(m.fresh)*m.pace + s.Tick
	}
	if m.boot == 0 { // the worst of both capacities, and nothing to reckon with in the mean
		s.Start += s.Window / bootsInWindow
		s.Risk += s.Window / bootsInWindow
	}
	return s
}

// workOf is the work that is left and that of the whole training: as it was measured, or else as the step declares it. 0 is not known.
func workOf(in contract.DecideInput, m measurement) (left, all time.Duration) {
	steps := cmp.Or(in.TotalSteps, m.of)
	rest := max(0, steps-m.step)
	switch {
	case m.pace > 0:
		left, all = time.Duration(rest)*m.pace, time.Duration(steps)*m.pace
	case steps > 0:
		left, all = time.Duration(float64(in.Work)*float64(rest)/float64(steps)), in.Work
	default:
		left, all = in.Work, in.Work
	}
	margin := func(d time.Duration) time.Duration { return time.Duration(workMargin * float64(d)) }
	return margin(left), margin(all)
}
