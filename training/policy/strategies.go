package policy

import "github.com/sluiceml/sluice/dsl/spec"

// Strategy decides from a state. Decide is one; it is compared with the others.
type Strategy func(State) Decision

// Greedy uses spot, or waits for it, until the slack is used up, and then stays on on-demand.
func Greedy(s State) Decision {
	switch {
	case s.Running == spec.CapacitySpot:
		return Decision{Spot: true}
	case s.Running == spec.CapacityOnDemand:
		return Decision{OnDemand: true}
	}
	return Decision{Spot: s.Slack() >= s.mustStay(), OnDemand: s.Slack() < s.mustStart()}
}

// UniformProgress is the policy of Wu et al., "Can't Be Late" (NSDI 2024): progress is to keep up with the share of the time that has
// passed. It takes spot whenever there is some; without, it waits while progress is ahead and takes on-demand while it is behind, and
// leaves that once progress is ahead by two changeovers.
func UniformProgress(s State) Decision {
	if s.Running == spec.CapacitySpot {
		return Decision{Spot: true}
	}
	done := (s.TotalWork - s.Work).Seconds()
	passed, slope := (s.Window - s.Left).Seconds(), s.TotalWork.Seconds()/s.Window.Seconds()
	behind := done < passed*slope
	if s.Running == spec.CapacityOnDemand {
		behind = done < (passed+2*s.Changeover.Seconds())*slope
	}
	return Decision{Spot: s.Slack() >= s.mustStay(), OnDemand: behind || s.Slack() < s.mustStart()}
}

// OnDemand always uses on-demand.
func OnDemand(State) Decision { return Decision{OnDemand: true} }
