package policy

import (
	"time"

	"github.com/sluiceml/sluice/dsl/spec"
)

// Job is what is trained in a replay.
type Job struct {
	// Work is how long it trains, and Within how long it may take.
	Work, Within time.Duration
	Changeover   time.Duration
	// Every is the work between checkpoints: spot that goes takes along what was done since the last. 0: it takes nothing along.
	Every  time.Duration
	Prices spec.Prices
}

// Outcome is how a replay ended.
type Outcome struct {
	CostUSD float64
	// Late is how long after the deadline it was done; not positive: in time.
	Late time.Duration
	// Changeovers counts how often nodes were started.
	Changeovers int
	// OnSpot and OnDemand are how long nodes were paid for, and Waited how long there were none.
	OnSpot, OnDemand, Waited time.Duration
}

// Replay trains a job on a window. Past the window's end there is no spot. A strategy decides once in each interval; nodes that are
// taken anew train after the changeover.
func Replay(decide Strategy, job Job, w Window, gap time.Duration) Outcome {
	return play(decide, job, w, gap).out
}

// Stretch is a time in a replay in which the same nodes were there, or none.
type Stretch struct {
	// Capacity is that of the nodes; empty: there were none.
	Capacity string
	// From and To count from the beginning. Until Trains the nodes start; then they train.
	From, Trains, To time.Duration
	// Done is the work that was done at the end.
	Done time.Duration
}

// Stretches is what a replay came by, from its beginning to its end.
func Stretches(decide Strategy, job Job, w Window, gap time.Duration) []Stretch {
	return play(decide, job, w, gap).stretches
}

func play(decide Strategy, job Job, w Window, gap time.Duration) *replay {
	r := &replay{job: job, decide: decide, work: job.Work}
	for i := 0; r.work > 0; i++ {
		r.interval(i < len(w.Available) && w.Available[i] == '1', gap)
	}
	r.out.Late = r.elapsed - job.Within
	return r
}

// replay is the state of a replay.
type replay struct {
	job     Job
	decide  Strategy
	work    time.Duration
	fresh   time.Duration // the work since the last checkpoint
	elapsed time.Duration
	running string
	booting time.Duration // until the nodes that run train
	losses  int
	out     Outcome

	stretches []Stretch
}

// interval plays one interval of the trace.
func (r *replay) interval(available bool, gap time.Duration) {
	if r.running == spec.CapacitySpot && !available {
		r.running = ""
		r.losses++
		r.work += r.fresh
		r.fresh = 0
	}
	if next := r.next(available, gap); next != r.running {
		r.running, r.fresh = next, 0 // who is told to leave saves a checkpoint
		if next != "" {
			r.booting = r.job.Changeover
			r.out.Changeovers++
		}
	}
	from := r.elapsed
	r.train(gap)
	r.note(from)
}

// note adds what ran since a time to the stretches.
func (r *replay) note(from time.Duration) {
	if n := len(r.stretches); n == 0 || r.stretches[n-1].Capacity != r.running {
		r.stretches = append(r.stretches, Stretch{Capacity: r.running, From: from})
	}
	s := &r.stretches[len(r.stretches)-1]
	s.To, s.Done = r.elapsed, r.job.Work-r.work
	if s.Trains = s.To; s.Capacity != "" {
		s.Trains = min(s.From+r.job.Changeover, s.To)
	}
}

// next is what runs in the interval.
func (r *replay) next(available bool, gap time.Duration) string {
	d := r.decide(State{
		Deadline: true, Work: r.work, Left: r.job.Within - r.elapsed, TotalWork: r.job.Work, Window: r.job.Within, Elapsed: r.elapsed,
		Changeover: r.job.Changeover, Risk: r.risk(gap), Tick: gap, Running: r.running, Spot: true, OnDemand: true, Prices: r.job.Prices,
		SpotUp: r.out.OnSpot, SpotLosses: r.losses,
	})
	switch {
	case d.Spot && (available || r.running == spec.CapacitySpot):
		return spec.CapacitySpot
	case d.OnDemand:
		return spec.CapacityOnDemand
	}
	return ""
}

// risk is what a gang on spot loses at most if it goes at the end of an interval.
func (r *replay) risk(gap time.Duration) time.Duration {
	if r.running != spec.CapacitySpot {
		return r.job.Every
	}
	return min(r.fresh+gap, r.job.Every)
}

// train lets what runs train for an interval, or until the work is done.
func (r *replay) train(gap time.Duration) {
	spent := gap
	if r.running != "" {
		boot := min(r.booting, gap)
		r.booting -= boot
		done := min(gap-boot, r.work)
		r.work -= done
		if r.job.Every > 0 {
			r.fresh = (r.fresh + done) % r.job.Every
		}
		if r.work == 0 {
			spent = boot + done
		}
	}
	r.elapsed += spent
	switch r.running {
	case spec.CapacitySpot:
		r.out.OnSpot += spent
	case spec.CapacityOnDemand:
		r.out.OnDemand += spent
	default:
		r.out.Waited += spent
	}
	r.out.CostUSD = r.job.cost(r.out.OnSpot, r.out.OnDemand)
}

func (j Job) cost(spot, onDemand time.Duration) float64 {
	return spot.Hours()*j.Prices.Spot + onDemand.Hours()*j.Prices.OnDemand
}
