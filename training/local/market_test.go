package local

import (
	"errors"
	"testing"
	"time"

	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/training"
)

func TestMarket(t *testing.T) {
	spot, stays := spec.CapacitySpot, spec.CapacityOnDemand
	running := func(n int, price float64) map[training.Key]*gang {
		g := &gang{}
		g.Nodes, g.USDPerHour = make([]training.Node, n), price
		return map[training.Key]*gang{{Run: "other"}: g}
	}
	for _, tt := range []struct {
		name     string
		options  Options
		gangs    map[training.Key]*gang
		dry      time.Duration
		capacity string
		want     int // 0: refused, with err
		err      error
	}{
		{name: "all that is asked for", options: Options{Nodes: 9}, want: 4},
		{name: "all there are", options: Options{Nodes: 3}, want: 3},
		{name: "as many as the limit", options: Options{Nodes: 9, Limits: spec.PoolLimits{Nodes: 3}}, want: 3},
		{name: "more than the limit", options: Options{Nodes: 9, Limits: spec.PoolLimits{Nodes: 1}}, err: training.ErrTooLarge},
		{name: "the rest of the limit", options: Options{Nodes: 9, Limits: spec.PoolLimits{Nodes: 5}}, gangs: running(2, 0), want: 3},
		{name: "more than the rest of the limit", options: Options{Nodes: 9, Limits: spec.PoolLimits{Nodes: 3}}, gangs: running(2, 0), err: training.ErrNoCapacity},
		{name: "as many as may be paid", options: Options{Nodes: 9, Prices: spec.Prices{OnDemand: 2}, Limits: spec.PoolLimits{USDPerHour: 7}}, capacity: stays, want: 3},
		{name: "spot is cheaper", options: Options{Nodes: 9, Prices: spec.Prices{OnDemand: 2, Spot: 1}, Limits: spec.PoolLimits{USDPerHour: 7}}, capacity: spot, want: 4},
		{name: "what others leave to be paid", options: Options{Nodes: 9, Prices: spec.Prices{OnDemand: 2}, Limits: spec.PoolLimits{USDPerHour: 7}}, gangs: running(3, 1), capacity: stays, want: 2},
		{name: "nothing is left to be paid", options: Options{Nodes: 9, Prices: spec.Prices{OnDemand: 2}, Limits: spec.PoolLimits{USDPerHour: 7}}, gangs: running(4, 1), capacity: stays, err: training.ErrNoCapacity},
		{name: "too dear for ever", options: Options{Nodes: 9, Prices: spec.Prices{OnDemand: 4}, Limits: spec.PoolLimits{USDPerHour: 7}}, capacity: stays, err: training.ErrTooLarge},
		{name: "no spot", options: Options{Nodes: 9}, dry: time.Minute, capacity: spot, err: training.ErrNoCapacity},
		{name: "on-demand where there is no spot", options: Options{Nodes: 9}, dry: time.Minute, capacity: stays, want: 4},
		{name: "spot again", options: Options{Nodes: 9}, dry: -time.Second, capacity: spot, want: 4},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m := marketOf(tt.options)
			m.dry(tt.dry)
			got, err := m.sells(training.Request{MinNodes: 2, MaxNodes: 4, Capacity: tt.capacity}, tt.gangs, time.Now())
			if got != tt.want || !errors.Is(err, tt.err) {
				t.Errorf("%d, %v; want %d, %v", got, err, tt.want, tt.err)
			}
		})
	}
}

// Spot that was taken away is gone for a while; on-demand is neither taken away nor gone.
func TestSpotAndOnDemandSideBySide(t *testing.T) {
	p := newPool(t, 4, &spec.Interruptions{MeanUp: spec.Duration(50 * time.Millisecond), WithoutNotice: 1, Gap: spec.Duration(time.Hour)})
	p.opts.Prices = spec.Prices{Spot: 1, OnDemand: 3}
	buy := func(generation int, capacity string) (training.Gang, error) {
		r := request(generation)
		r.Capacity = capacity
		return p.Acquire(t.Context(), r)
	}
	stays, err := buy(1, spec.CapacityOnDemand)
	if err != nil || stays.Capacity != spec.CapacityOnDemand || stays.USDPerHour != 3 {
		t.Fatalf("on-demand: %+v, %v", stays, err)
	}
	spot, err := buy(2, spec.CapacitySpot)
	if err != nil || spot.Capacity != spec.CapacitySpot || spot.USDPerHour != 1 {
		t.Fatalf("spot: %+v, %v", spot, err)
	}
	if loss, err := p.Watch(t.Context(), request(2).Key, nil); err != nil || len(loss.Nodes) != 1 {
		t.Fatalf("loss of spot %+v, %v, want one node", loss, err)
	}
	if _, err := p.Release(t.Context(), request(2).Key); err != nil {
		t.Fatal(err)
	}
	if _, err := buy(3, spec.CapacitySpot); !errors.Is(err, training.ErrNoCapacity) {
		t.Errorf("spot after an interruption: %v, want none", err)
	}
	if _, err := buy(3, spec.CapacityOnDemand); err != nil {
		t.Errorf("on-demand after an interruption of spot: %v", err)
	}
	if alive(t, p.dir(request(1).Key)) != 2 {
		t.Error("a node on on-demand was taken away")
	}
}
