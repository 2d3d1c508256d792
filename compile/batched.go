package compile

import (
	"context"

	"github.com/sluiceml/sluice/serving/answer"
	batching "github.com/sluiceml/sluice/serving/batch"
	"github.com/sluiceml/sluice/serving/oip"
)

// batched returns the share of samples whose answers are the same alone and among other samples, whose floating-point numbers are multiplied. They
// are the next ones of the same shape, or the sample itself where no other has its shape.
func (m *model) batched(ctx context.Context, rules answer.Rules, samples [][]oip.Tensor) (float64, error) {
	steady := 0
	for i, sample := range samples {
		rows := make([][]oip.Tensor, 1+batching.Neighbours)
		at, others := i%len(rows), fitting(samples, i)
		for k := range rows {
			rows[k] = sample
			if k != at {
				rows[k] = batching.Scaled(others[k%len(others)], batching.Scales[k%len(batching.Scales)])
			}
		}
		err := batching.Steady(ctx, m.session, rows, at, rules.Steady)
		if ctx.Err() != nil {
			return 0, context.Cause(ctx)
		}
		if err == nil {
			steady++
		}
	}
	return float64(steady) / float64(len(samples)), nil
}

// fitting returns the samples after one that have its shape, as many as run with it.
func fitting(samples [][]oip.Tensor, i int) [][]oip.Tensor {
	var others [][]oip.Tensor
	for k := 1; k < len(samples) && len(others) < batching.Neighbours; k++ {
		if other := samples[(i+k)%len(samples)]; sameShapes(samples[i], other) {
			others = append(others, other)
		}
	}
	if others == nil {
		return samples[i : i+1]
	}
	return others
}
