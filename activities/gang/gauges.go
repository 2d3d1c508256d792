package gang

import (
	"cmp"
	"context"
	"time"

	"go.temporal.io/sdk/activity"

	"github.com/sluiceml/sluice/activities/contract"
	"github.com/sluiceml/sluice/internal/poll"
	"github.com/sluiceml/sluice/internal/telemetry"
	"github.com/sluiceml/sluice/training"
	"github.com/sluiceml/sluice/training/protocol"
)

// gaugesEvery is how often a gang's nodes are asked how far they are: their GPUs are read as often.
const gaugesEvery = 5 * time.Second

// maxGPUs bounds what is exported of a node, which a program in the user's image says of itself: it is that of `resources`.
const maxGPUs = 64

// keepGauges keeps what is known of a gang in the gauges, until the function that it returns is called. The nodes are asked by way of their
// heartbeats, which Temporal has: a worker need not reach them.
func (t *Trainings) keepGauges(ctx context.Context, in contract.GangInput) (end func()) {
	if t.Gauges == nil || len(in.Gang.Nodes) == 0 {
		return func() {}
	}
	workflow := activity.GetInfo(ctx).WorkflowExecution.ID
	ctx, cancel := context.WithCancel(ctx)
	held, over := t.Gauges.Hold(), make(chan struct{})
	held.Set(gangSamples(in, nil))
	go func() {
		defer close(over)
		for range poll.Every(ctx, gaugesEvery) {
			nodes, err := t.Progress(ctx, workflow)
			if err != nil && ctx.Err() == nil {
				activity.GetLogger(ctx).Warn("the readings of the nodes are not available", "gang", in.Key.String(), "error", err)
			}
			held.Set(gangSamples(in, nodes))
		}
	}()
	return func() {
		cancel()
		<-over
		held.Release()
	}
}

// gangSamples is what is exported of a gang whose nodes say this.
func gangSamples(in contract.GangInput, nodes []protocol.TrainProgress) []telemetry.Sample {
	pool, count := in.Pool, float64(len(in.Gang.Nodes))
	samples := []telemetry.Sample{{Metric: telemetry.GangNodes, Value: count, Labels: []string{pool, in.Gang.Capacity}}}
	if price := in.Gang.USDPerHour; price > 0 {
		samples = append(samples, telemetry.Sample{Metric: telemetry.GangCost, Value: count * price, Labels: []string{pool, in.Gang.Capacity}})
	}
	for _, p := range nodes {
		if p.Generation != in.Key.Generation || p.Node < 0 || p.Node >= len(in.Gang.Nodes) {
			continue
		}
		if p.Node == 0 {
			samples = append(samples, telemetry.Sample{Metric: telemetry.TrainRate, Value: p.StepsPerSecond, Labels: []string{pool}})
		}
		node := in.Gang.Nodes[p.Node]
		gpus := p.GPUs[:min(len(p.GPUs), maxGPUs)]
		samples = append(samples, training.GPUSamples(telemetry.GangGPUs, gpus, pool, cmp.Or(node.Machine, node.Name))...)
	}
	return samples
}
