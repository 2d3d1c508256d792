package policy_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/training/policy"
)

// Where prices are not known, the decisions are those for spot at a third of the price, and not for other shares.
func TestDecideWithoutPrices(t *testing.T) {
	decisions := func(prices spec.Prices) (all []policy.Decision) {
		for up := time.Second; up < 4*time.Hour; up += time.Minute {
			all = append(all, policy.Decide(policy.State{
				Spot: true, OnDemand: true, Running: spec.CapacityOnDemand, Changeover: 8 * time.Minute, SpotUp: up, SpotLosses: 30, Prices: prices,
			}))
		}
		return all
	}
	unknown := decisions(spec.Prices{})
	for prices, want := range map[spec.Prices]bool{
		{Spot: 1, OnDemand: 3}: true, {Spot: 2, OnDemand: 6}: true, {Spot: 1, OnDemand: 2}: false, {Spot: 1, OnDemand: 5}: false,
	} {
		if same := cmp.Equal(unknown, decisions(prices)); same != want {
			t.Errorf("spot for %g and on-demand for %g are decided on as if no price were known: %v", prices.Spot, prices.OnDemand, same)
		}
	}
}

func TestDecide(t *testing.T) {
	const h = time.Hour
	spot, onDemand, both, wait := policy.Decision{Spot: true}, policy.Decision{OnDemand: true}, policy.Decision{Spot: true, OnDemand: true}, policy.Decision{Spot: true}
	bothWithin := func(within time.Duration) policy.Decision {
		return policy.Decision{Spot: true, OnDemand: true, SpotWithin: within}
	}
	// due is a job of 10 h of which work is left, with so much time to the deadline.
	due := func(work, left time.Duration, more func(*policy.State)) policy.State {
		s := policy.State{
			Deadline: true, Work: work, Left: left, TotalWork: 10 * h, Window: 20 * h, Elapsed: 20*h - left, Changeover: 6 * time.Minute,
			Tick: time.Minute, Spot: true, OnDemand: true, Prices: spec.Prices{Spot: 1, OnDemand: 3},
		}
		if more != nil {
			more(&s)
		}
		return s
	}
	risking := func(work time.Duration) func(*policy.State) {
		return func(s *policy.State) { s.Running, s.Risk = spec.CapacitySpot, work }
	}
	on := func(capacity string) func(*policy.State) { return func(s *policy.State) { s.Running = capacity } }
	for _, tt := range []struct {
		name  string
		state policy.State
		want  policy.Decision
	}{
		{"no deadline", policy.State{Spot: true, OnDemand: true}, both},
		{"no deadline, spot alone is allowed", policy.State{Spot: true}, spot},
		{"no deadline, on-demand alone is allowed", policy.State{OnDemand: true}, onDemand},
		{"no deadline, on-demand runs", policy.State{Spot: true, OnDemand: true, Running: spec.CapacityOnDemand, Changeover: time.Minute}, both},
		{"no deadline, a move costs more than it gains", policy.State{
			Spot: true, OnDemand: true, Running: spec.CapacityOnDemand, Changeover: time.Hour, SpotUp: time.Hour, SpotLosses: 8,
		}, onDemand},
		{"no deadline, spot is dearer", policy.State{
			Spot: true, OnDemand: true, Running: spec.CapacityOnDemand, Changeover: time.Minute, Prices: spec.Prices{Spot: 4, OnDemand: 3},
		}, onDemand},
		{"much slack", due(10*h, 20*h, nil), wait},
		{"no more slack than the changeovers to come need", due(10*h, 11*h, nil), bothWithin(48 * time.Minute)},
		{"slack for no changeover to spot and back", due(1*h, 1*h+11*time.Minute, nil), onDemand},
		{"on spot", due(10*h, 11*h, on(spec.CapacitySpot)), spot},
		{"on spot, whose loss the slack would cover", due(10*h, 11*h, risking(53*time.Minute)), spot},
		{"on spot, whose loss would cost more than the slack", due(10*h, 11*h, risking(55*time.Minute)), onDemand},
		{"on spot, with less slack than the slowest changeover took", due(10*h, 10*h+5*time.Minute, risking(55*time.Minute)), onDemand},
		{"on spot, which it is too late to leave", due(10*h, 10*h-time.Minute, risking(55*time.Minute)), spot},
		{"on on-demand, with too little slack for what spot would take along", due(5*h, 6*h, func(s *policy.State) {
			s.Running, s.Risk = spec.CapacityOnDemand, 49*time.Minute
		}), onDemand},
		{"on spot, with no slack", due(1*h, 1*h, on(spec.CapacitySpot)), onDemand},
		{"on on-demand, with slack", due(5*h, 6*h, on(spec.CapacityOnDemand)), both},
		{"on on-demand, with no slack", due(5*h, 5*h+11*time.Minute, on(spec.CapacityOnDemand)), onDemand},
		{"on on-demand, and spot goes away too soon", due(5*h, 6*h, func(s *policy.State) {
			s.Running, s.SpotUp, s.SpotLosses = spec.CapacityOnDemand, 10*time.Minute, 30
		}), onDemand},
		{"slack for spot that is ready at once", due(10*h, 10*h+12*time.Minute+30*time.Second, nil), bothWithin(time.Minute)},
		{"the speed is not known", due(0, 5*h, nil), onDemand},
		{"the speed is not known, on on-demand", due(0, 5*h, on(spec.CapacityOnDemand)), onDemand},
		{"the deadline has passed", due(5*h, -h, nil), both},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := policy.Decide(tt.state)
			stays := tt.state.Running == spec.CapacitySpot && got.Spot
			if (got.Review > 0) != (tt.name == "much slack" || stays) {
				t.Errorf("review after %v", got.Review)
			}
			if got.Review > 0 {
				if !stays && got.SpotWithin != got.Review {
					t.Errorf("spot may take %v, want the %v until the next decision", got.SpotWithin, got.Review)
				}
				got.Review, got.SpotWithin = 0, 0
			}
			if got != tt.want {
				t.Errorf("%+v, want %+v", got, tt.want)
			}
		})
	}
}

// A wait ends while there is time for on-demand, however often it is reviewed.
func TestWaitEnds(t *testing.T) {
	s := policy.State{
		Deadline: true, Work: 10 * time.Hour, Left: 20 * time.Hour, TotalWork: 10 * time.Hour, Window: 20 * time.Hour,
		Changeover: 6 * time.Minute, Tick: time.Minute, Spot: true, OnDemand: true,
	}
	for range 1000 {
		d := policy.Decide(s)
		if d.OnDemand {
			if s.Slack() < s.Changeover {
				t.Errorf("on-demand with a slack of %v is too late", s.Slack())
			}
			return
		}
		if !d.Spot || d.Review < s.Tick {
			t.Fatalf("waits: %+v", d)
		}
		s.Left, s.Elapsed = s.Left-d.Review, s.Elapsed+d.Review
	}
	t.Error("it waits for ever")
}
