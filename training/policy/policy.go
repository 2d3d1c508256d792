// Package policy decides which capacity a training step asks for now: spot, which is cheap and may go away at any moment, or
// on-demand, which stays. It is pure: a State goes in, a Decision comes out, and the same function serves the train workflow and
// `sluice simulate`.
//
// With a deadline the time that is left falls into work and slack. Slack pays for two things: for waiting until there is spot, and
// for changeovers, in which nodes start and nobody trains. Waiting early or late buys the same, but whoever spends all slack on
// waiting can afford no changeover when spot comes back, and is bound to on-demand to the end. So the policy waits as long as a
// reserve for the changeovers to come stays untouched, trains on on-demand meanwhile when it does not, and takes spot again
// whenever it is worth a changeover. Once slack covers no more than two changeovers, to spot and back, and the work that spot may take
// along, it stays on on-demand; and it leaves spot when losing it now would cost more than the slack. That is what keeps the deadline.
package policy

import (
	"time"

	"github.com/sluiceml/sluice/dsl/spec"
)

// State is the input of a decision.
type State struct {
	// Deadline says that there is one. Without it Work, Left, TotalWork and Window mean nothing.
	Deadline bool
	// Work is what remains to be trained, at the measured speed or as it was declared, and 0 as long as neither is known; Left is the time until
	// the deadline.
	Work, Left time.Duration
	// TotalWork and Window are the same as they were when the step began; Decide does without TotalWork.
	TotalWork, Window time.Duration
	// Elapsed is the time since the step began.
	Elapsed time.Duration
	// Changeover is the time from requesting available nodes until they train, including what is trained a second time.
	Changeover time.Duration
	// Start is how much longer on-demand may take to be there than Changeover says, at most.
	Start time.Duration
	// Risk is the maximum work that a gang on spot loses if it goes without notice before the next decision: the work since its last
	// checkpoint or, while none runs on spot, the work that it would have done before its next one.
	Risk time.Duration
	// Tick is how much later than it is wanted the next decision may come into effect.
	Tick time.Duration
	// Running is the capacity type of the running gang; empty if none runs.
	Running string
	// Spot and OnDemand say what may be bought, and Prices what it costs; 0 is not known.
	Spot, OnDemand bool
	Prices         spec.Prices
	// SpotUp is how long gangs on spot have lived all together, and SpotLosses how often one was taken away.
	SpotUp     time.Duration
	SpotLosses int
}

// Decision says what to request.
type Decision struct {
	// Spot: take spot as soon as there is any, also in place of on-demand that runs.
	Spot bool
	// OnDemand: take on-demand, or go on with it, as long as there is no spot; without Spot, also in place of spot that runs. Neither: wait.
	OnDemand bool
	// Review is after what time to decide again, if nothing happens before; 0: then only.
	Review time.Duration
	// SpotWithin is how long spot may take to be ready before on-demand has to be asked for; 0: as long as it takes.
	SpotWithin time.Duration
}

const (
	// priorLosses is the weight, in losses, of what is believed of spot before any was seen: that it goes away priorCycles times from
	// the start to the deadline, and is there half of the time.
	priorLosses = 4
	priorCycles = 16
	// reserveFactor is how many times the expected cost of the changeovers to come is kept in reserve. More than once, since running out
	// of it is dearer than keeping some.
	reserveFactor = 2.5
	// priorUp is how long spot is believed to stay where there is no deadline that would tell long from short.
	priorUp = 2 * time.Hour
	// unknownSpotShare is the price of spot as a share of on-demand's where they are not said.
	unknownSpotShare = 1. / 3
)

// Slack is the time left beyond the work.
func (s State) Slack() time.Duration { return s.Left - s.Work }

// back is how long it takes at most from asking for on-demand until it trains.
func (s State) back() time.Duration { return s.Changeover + s.Start }

// mustStay is the slack below which on-demand must not be left: a changeover to spot, and one back, with what is lost there.
func (s State) mustStay() time.Duration { return s.Changeover + s.back() + s.Risk }

// mustLeave is the slack below which spot must be left for on-demand, since its loss would cost more. What it trains until on-demand is there
// is lost as well when it goes just before.
func (s State) mustLeave() time.Duration { return s.back() + s.Risk + s.Start }

// mustStart is the slack below which on-demand must be asked for now, since the next decision may be too late.
func (s State) mustStart() time.Duration { return max(s.mustStay(), s.back()+s.Tick) }

// Decide returns what to request now.
func Decide(s State) Decision {
	switch {
	case s.Running == spec.CapacitySpot && s.OnDemand && s.Deadline && s.Left > 0 && s.Work > 0:
		left := s.Slack() - s.mustLeave()
		if left < 0 && s.Slack() >= 0 { // with less, to leave would be too late too
			return Decision{OnDemand: true}
		}
		return Decision{Spot: true, Review: max(left, s.Tick)}
	case s.Running == spec.CapacitySpot, s.Spot && !s.OnDemand:
		return Decision{Spot: true}
	case !s.Spot:
		return Decision{OnDemand: true}
	case !s.Deadline, s.Left <= 0:
		return Decision{Spot: s.Running == "" || s.worthMoving(), OnDemand: true}
	case s.Work <= 0: // it may be that there is no time to lose
		return Decision{OnDemand: true}
	case s.Slack() < s.mustStay():
		return Decision{OnDemand: true}
	case s.Running == spec.CapacityOnDemand:
		return Decision{Spot: s.worthMoving(), OnDemand: true}
	}
	if wait := s.Slack() - max(s.mustStart(), s.reserve()+s.back()+s.Tick); wait > 0 {
		return Decision{Spot: true, Review: max(wait, s.Tick), SpotWithin: max(wait, s.Tick)}
	}
	// Spot that is ready at once costs no slack, and spot that is not must leave enough for on-demand.
	return Decision{Spot: true, OnDemand: true, SpotWithin: max(s.Slack()-s.mustStart(), s.Tick)}
}

// reserve is the slack to keep for the changeovers that the rest of the work is expected to need: two for each time that spot goes
// away.
func (s State) reserve() time.Duration {
	cycle := (s.Elapsed + s.Window/priorCycles*priorLosses) / time.Duration(s.SpotLosses+priorLosses)
	if cycle <= 0 {
		return 0
	}
	return time.Duration(reserveFactor * 2 * s.Changeover.Seconds() / cycle.Seconds() * float64(s.Work))
}

// worthMoving reports whether leaving on-demand for spot gains more than it costs: the difference of the prices as long as spot is
// expected to stay, against the changeover to it and the one back.
func (s State) worthMoving() bool {
	spot, onDemand := s.prices()
	return s.expectedUp().Seconds()*(onDemand-spot) > s.Changeover.Seconds()*(onDemand+spot)
}

// expectedUp is how long spot is expected to stay.
func (s State) expectedUp() time.Duration {
	prior := priorUp
	if s.Deadline {
		prior = s.Window / priorCycles / 2
	}
	return (s.SpotUp + priorLosses*prior) / time.Duration(s.SpotLosses+priorLosses)
}

// prices are those of the state, or a belief where one is not said.
func (s State) prices() (spot, onDemand float64) {
	if s.Prices.Spot <= 0 || s.Prices.OnDemand <= 0 {
		return unknownSpotShare, 1
	}
	return s.Prices.Spot, s.Prices.OnDemand
}
