package local

import (
	"fmt"
	"sync/atomic"
	"time"

	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/training"
)

// market is what a pool sells, as it stands.
type market struct {
	nodes  int
	prices spec.Prices
	limit  float64 // dollars an hour; 0: none
	// dryUntil is until when there is no spot, in nanoseconds since 1970. It is set while the pool may be locked.
	dryUntil atomic.Int64
}

func marketOf(o Options) *market {
	m := &market{nodes: o.Nodes, prices: o.Prices, limit: o.Limits.USDPerHour}
	if o.Limits.Nodes > 0 {
		m.nodes = min(m.nodes, o.Limits.Nodes)
	}
	return m
}

// sells says how many nodes a request gets, at most, beside the gangs there are.
func (m *market) sells(r training.Request, gangs map[training.Key]*gang, now time.Time) (int, error) {
	free, spent := m.nodes, 0.0
	for _, g := range gangs {
		free -= len(g.Nodes)
		spent += float64(len(g.Nodes)) * g.USDPerHour
	}
	price := m.prices.Of(r.Capacity)
	least := float64(r.MinNodes) * price
	switch {
	case r.MinNodes > m.nodes:
		return 0, fmt.Errorf("%d nodes are needed, but the pool has %d: %w", r.MinNodes, m.nodes, training.ErrTooLarge)
	case m.limit > 0 && !training.Affordable(least, m.limit):
		return 0, fmt.Errorf("%d nodes at $%g an hour are more than its limit of $%g: %w", r.MinNodes, price, m.limit, training.ErrTooLarge)
	case r.Capacity == spec.CapacitySpot && now.UnixNano() < m.dryUntil.Load():
		return 0, fmt.Errorf("no spot capacity: %w", training.ErrNoCapacity)
	case r.MinNodes > free:
		return 0, fmt.Errorf("%d nodes are needed, but %d of %d are free: %w", r.MinNodes, free, m.nodes, training.ErrNoCapacity)
	case m.limit > 0 && !training.Affordable(spent+least, m.limit):
		return 0, fmt.Errorf("$%g of its limit of $%g an hour are in use: %w", spent, m.limit, training.ErrNoCapacity)
	}
	n := min(r.MaxNodes, free)
	for m.limit > 0 && n > r.MinNodes && !training.Affordable(spent+float64(n)*price, m.limit) {
		n--
	}
	return n, nil
}

// dry takes all spot off the market for a time.
func (m *market) dry(d time.Duration) { m.dryUntil.Store(time.Now().Add(d).UnixNano()) }
