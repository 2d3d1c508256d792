package ec2

import (
	"context"
	"fmt"
	"slices"
	"strconv"

	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/training"
)

// admit says how many instances a request gets by the pool's limits. Workers count for themselves, so that two that launch at the same
// moment may pass a limit together.
func (p *Pool) admit(ctx context.Context, r training.Request, fit []types.InstanceTypeInfo) (int, error) {
	limits := p.opts.Limits
	if limits == (spec.PoolLimits{}) {
		return r.MaxNodes, nil
	}
	taken, err := p.describe(ctx, tagFilter(tagPool, p.opts.Name))
	if err != nil {
		return 0, err
	}
	taken = slices.DeleteFunc(alive(taken), func(i types.Instance) bool { return isOf(r.Key, i) }) // some of its own may just have appeared
	n := r.MaxNodes
	if limits.Nodes > 0 {
		if r.MinNodes > limits.Nodes {
			return 0, fmt.Errorf("%s are needed, but the pool is limited to %d (limits.nodes): %w", instances(r.MinNodes), limits.Nodes, training.ErrTooLarge)
		}
		n = min(n, limits.Nodes-len(taken))
		if n < r.MinNodes {
			return 0, fmt.Errorf("%s are needed, but %d of %d (limits.nodes) are in use: %w",
				instances(r.MinNodes), len(taken), limits.Nodes, training.ErrNoCapacity)
		}
	}
	if limits.USDPerHour == 0 {
		return n, nil
	}
	return p.afford(ctx, r, fit, taken, n)
}

// afford says how many of n instances the pool's limit on dollars an hour has room for.
func (p *Pool) afford(ctx context.Context, r training.Request, fit []types.InstanceTypeInfo, taken []types.Instance, n int) (int, error) {
	var each float64 // of the dearest type that it may become
	for _, t := range fit {
		price, err := p.priceOf(ctx, t.InstanceType, r.Capacity, "")
		if err != nil {
			return 0, fmt.Errorf("%w, but limits.usd_per_hour needs it: set usd_per_hour: {%s: ...} for the pool: %w", err, r.Capacity, training.ErrInvalid)
		}
		each = max(each, price)
	}
	var spent float64
	for _, instance := range taken {
		price, err := p.price(ctx, instance)
		if err != nil {
			return 0, err
		}
		spent += price
	}
	limit := p.opts.Limits.USDPerHour
	least := float64(r.MinNodes) * each
	tooDear := training.ErrTooLarge
	if r.Capacity == spec.CapacitySpot && p.opts.Prices.Spot == 0 { // AWS's price, which changes
		tooDear = training.ErrPrice
	}
	switch {
	case !training.Affordable(least, limit):
		return 0, fmt.Errorf("%s at $%s an hour cost more than limits.usd_per_hour, $%s: %w",
			instances(r.MinNodes), dollars(each), dollars(limit), tooDear)
	case !training.Affordable(spent+least, limit):
		return 0, fmt.Errorf("%s at $%s an hour, and the $%s that others cost now, exceed limits.usd_per_hour, $%s: %w",
			instances(r.MinNodes), dollars(each), dollars(spent), dollars(limit), training.ErrNoCapacity)
	}
	return min(n, max(r.MinNodes, training.NodesFor(limit, spent, each))), nil
}

func dollars(usd float64) string { return strconv.FormatFloat(usd, 'f', -1, 64) }
