package gang

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sluiceml/sluice/activities/contract"
	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/store"
	"github.com/sluiceml/sluice/training"
	"github.com/sluiceml/sluice/training/checkpoint"
	"github.com/sluiceml/sluice/training/policy"
)

var (
	gpuSpot  = contract.Offer{Pool: "gpu", Capacity: spec.CapacitySpot, USDPerHour: 1, RetryFor: 30 * time.Minute}
	gpuStays = contract.Offer{Pool: "gpu", Capacity: spec.CapacityOnDemand, USDPerHour: 3, RetryFor: 30 * time.Minute}
	burst    = contract.Offer{Pool: "burst", Capacity: spec.CapacityOnDemand, USDPerHour: 4, RetryFor: 30 * time.Minute}
)

func TestChoose(t *testing.T) {
	began := time.Unix(1000, 0).UTC()
	all := []contract.Offer{gpuSpot, gpuStays, burst}
	plain := measurement{pace: time.Second, boot: 10 * time.Second}
	in := func(more func(*contract.DecideInput)) contract.DecideInput {
		in := contract.DecideInput{BeganAt: began, Now: began}
		in.Offers, in.TotalSteps = all, 3600
		if more != nil {
			more(&in)
		}
		return in
	}
	due := func(left time.Duration, current spec.Generation) contract.DecideInput {
		return in(func(in *contract.DecideInput) { in.Deadline, in.Current = began.Add(left), current })
	}
	declared := func(left, work time.Duration) contract.DecideInput {
		return in(func(in *contract.DecideInput) { in.Deadline, in.Work = began.Add(left), work })
	}
	slow := func(within time.Duration) contract.DecideInput {
		return in(func(in *contract.DecideInput) {
			in.Deadline, in.Offers = began.Add(70*time.Minute), slices.Clone(all)
			in.Offers[1].StartWithin = within
		})
	}
	for _, tt := range []struct {
		name     string
		in       contract.DecideInput
		measured measurement
		want     contract.Choice
	}{
		{"no deadline", in(nil), plain, contract.Choice{Offers: all, Tick: maxTick}},
		{"a loose deadline", due(3*time.Hour, spec.Generation{}), plain, contract.Choice{Offers: all[:1], Tick: 3 * time.Hour / ticksInWindow, Waits: true}},
		{"a tight deadline", due(64*time.Minute, spec.Generation{}), plain, contract.Choice{
			Offers: all, Tick: 64 * time.Minute / ticksInWindow, SpotWithin: 40 * time.Second,
		}},
		{"no slack", due(time.Hour, spec.Generation{}), plain, contract.Choice{Offers: all[1:], Tick: time.Hour / ticksInWindow}},
		{"nothing is known yet", due(time.Hour, spec.Generation{}), measurement{}, contract.Choice{Offers: all[1:], Tick: time.Hour / ticksInWindow}},
		{"the work is declared", declared(3*time.Hour, time.Hour), measurement{}, contract.Choice{
			Offers: all[:1], Tick: 3 * time.Hour / ticksInWindow, Waits: true,
		}},
		{"the work is declared, and there is no time for spot", declared(69*time.Minute, time.Hour), measurement{}, contract.Choice{
			Offers: all[1:], Tick: 69 * time.Minute / ticksInWindow,
		}},
		{"half of the work that is declared is done", declared(70*time.Minute, time.Hour), measurement{step: 1800}, contract.Choice{
			Offers: all[:1], Tick: 70 * time.Minute / ticksInWindow, Waits: true,
		}},
		{"the work is measured to be more than was declared", declared(70*time.Minute, time.Minute), plain, contract.Choice{
			Offers: all, Tick: 70 * time.Minute / ticksInWindow, SpotWithin: 6*time.Minute + 40*time.Second,
		}},
		{"on-demand may take long to be there", slow(6 * time.Minute), plain, contract.Choice{
			Offers: slow(6 * time.Minute).Offers, Tick: 70 * time.Minute / ticksInWindow, SpotWithin: 40 * time.Second,
		}},
		{"on-demand may take too long to be there", slow(7 * time.Minute), plain, contract.Choice{
			Offers: slow(7 * time.Minute).Offers[1:], Tick: 70 * time.Minute / ticksInWindow,
		}},
		{"on spot", due(3*time.Hour, spec.Generation{Capacity: spec.CapacitySpot}), plain, contract.Choice{Tick: 3 * time.Hour / ticksInWindow}},
		{
			"on spot, with more at risk than there is slack", due(80*time.Minute, spec.Generation{Capacity: spec.CapacitySpot}),
			measurement{pace: time.Second, boot: 10 * time.Second, fresh: 1200},
			contract.Choice{Offers: all[1:], Tick: 80 * time.Minute / ticksInWindow},
		},
		{
			"on spot, which has just saved", due(80*time.Minute, spec.Generation{Capacity: spec.CapacitySpot}),
			measurement{pace: time.Second, boot: 10 * time.Second, gap: 1200, fresh: 10},
			contract.Choice{Tick: 80 * time.Minute / ticksInWindow},
		},
		{
			"on on-demand, and spot would take along more than there is slack", due(80*time.Minute, spec.Generation{Capacity: spec.CapacityOnDemand}),
			measurement{pace: time.Second, boot: 10 * time.Second, gap: 1200},
			contract.Choice{Tick: 80 * time.Minute / ticksInWindow},
		},
		{"on on-demand", due(3*time.Hour, spec.Generation{Capacity: spec.CapacityOnDemand}), plain, contract.Choice{Offers: all[:1], Tick: 3 * time.Hour / ticksInWindow}},
		{"on on-demand, with no slack", due(time.Hour, spec.Generation{Capacity: spec.CapacityOnDemand}), plain, contract.Choice{Tick: time.Hour / ticksInWindow}},
		{"on on-demand, of unknown pace", in(func(in *contract.DecideInput) { in.Current.Capacity = spec.CapacityOnDemand }), measurement{}, contract.Choice{Tick: maxTick}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := choose(tt.in, tt.measured)
			stays := tt.in.Current.Capacity == spec.CapacitySpot && len(got.Offers) == 0
			if (got.Review > 0) != (got.Waits || stays) {
				t.Errorf("waits %v, and chooses again after %v", got.Waits, got.Review)
			}
			if got.Waits {
				if got.SpotWithin != got.Review {
					t.Errorf("spot may take %v, want the %v until it chooses again", got.SpotWithin, got.Review)
				}
				got.SpotWithin = 0
			}
			got.Review = 0
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("choice (-want +got):\n%s", diff)
			}
		})
	}
}

// What the policy is told of the market is what the generations went through.
func TestStateOfMarket(t *testing.T) {
	began := time.Unix(1000, 0)
	life := func(capacity string, end spec.GenerationEnd, from, to int) spec.Generation {
		return spec.Generation{
			Capacity: capacity, End: end, StartedAt: began.Add(time.Duration(from) * time.Minute), EndedAt: began.Add(time.Duration(to) * time.Minute),
		}
	}
	in := contract.DecideInput{BeganAt: began, Now: began.Add(time.Hour)}
	in.Offers = []contract.Offer{burst, gpuStays, gpuSpot}
	in.Ended = []spec.Generation{
		life(spec.CapacitySpot, spec.EndNotice, 0, 10), life(spec.CapacitySpot, spec.EndNodeLost, 10, 15),
		life(spec.CapacityOnDemand, spec.EndMoved, 15, 30), life(spec.CapacitySpot, spec.EndCrashed, 30, 31),
		life(spec.CapacitySpot, spec.EndDamaged, 31, 32), // the market has not taken it
	}
	want := policy.State{
		Elapsed: time.Hour, Changeover: 35 * time.Second, Tick: maxTick, Spot: true, OnDemand: true,
		Prices: spec.Prices{Spot: 1, OnDemand: 4}, SpotUp: 17 * time.Minute, SpotLosses: 2,
	}
	got := stateOf(in, measurement{pace: 2 * time.Second, boot: 10 * time.Second, end: 5 * time.Second, repeat: 10})
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("state (-want +got):\n%s", diff)
	}
}

func TestMeasure(t *testing.T) {
	s, err := store.Open(t.Context(), "mem://"+t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	began := time.Unix(1000, 0).UTC()
	at := func(seconds int) time.Time { return began.Add(time.Duration(seconds) * time.Second) }
	for g, p := range map[int]checkpoint.Progress{
		1: {Step: 21, Of: 500, FirstStep: 1, FirstAt: at(8), At: at(28)},
		2: {Step: 40, FirstStep: 20, FirstAt: at(45), At: at(55)},
	} {
		if err := checkpoint.PutProgress(t.Context(), s, training.Key{Run: "r", Step: "fit", Generation: g}, p); err != nil {
			t.Fatal(err)
		}
	}
	for _, at := range [][2]int{{1, 5}, {1, 19}, {2, 28}, {2, 34}} {
		err := checkpoint.Commit(t.Context(), s, training.Key{Run: "r", Step: "fit", Generation: at[0]}, checkpoint.Manifest{Generation: at[0], Step: int64(at[1])})
		if err != nil {
			t.Fatal(err)
		}
	}
	in := contract.DecideInput{Key: training.Key{Run: "r", Step: "fit", Generation: 2}}
	in.Ended = []spec.Generation{{Index: 1, StartedAt: at(0), EndedAt: at(30), StepsLost: 2}}
	in.Current = spec.Generation{Index: 2, StartedAt: at(40), FromStep: 19}
	got, err := (&Trainings{Store: s}).measure(t.Context(), in)
	if err != nil {
		t.Fatal(err)
	}
	want := measurement{pace: time.Second, boot: 8 * time.Second, end: 2 * time.Second, step: 40, of: 500, repeat: 2, gap: 14, fresh: 6}
	if got != want {
		t.Errorf("measured %+v, want %+v", got, want)
	}
}
