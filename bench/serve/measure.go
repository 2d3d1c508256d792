package main

import (
	"context"

	"github.com/sluiceml/sluice/bench/internal/compare"
	"github.com/sluiceml/sluice/serving/oip"
	"github.com/sluiceml/sluice/serving/onnx"
)

// clients of the closed loops with several.
const clients = 16

// rounds of each comparison, in turns; a figure is their median.
const rounds = 3

// measureAdded measures what the gateway adds to the time of an inference.
func measureAdded(ctx context.Context, m mlp) error {
	session, err := onnx.Open(m.file())
	if err != nil {
		return err
	}
	defer session.Close() //nolint:errcheck // what was measured stands
	input := []oip.Tensor{m.row()}
	direct := func(ctx context.Context) error {
		_, err := session.Infer(ctx, input)
		return err
	}
	var p50, p99, bare []float64
	err = withGateway(ctx, m, 0, func(url string) error {
		rest, err := overREST(url, m)
		if err != nil {
			return err
		}
		for range rounds {
			theirs, err := closedLoop(ctx, 1, direct)
			if err != nil {
				return err
			}
			ours, err := closedLoop(ctx, 1, rest)
			if err != nil {
				return err
			}
			p50 = append(p50, ours.quantile(0.5)-theirs.quantile(0.5))
			err = withAnswer(ctx, session, m, func(nothing ask) error {
				least, err := closedLoop(ctx, 1, nothing)
				if err == nil {
					bare = append(bare, least.quantile(0.5))
				}
				return err
			})
			if err != nil {
				return err
			}
			saturated, err := closedLoop(ctx, clients, rest)
			if err != nil {
				return err
			}
			open, err := openLoop(ctx, saturated.rate()/2, rest)
			if err != nil {
				return err
			}
			least, err := openLoop(ctx, saturated.rate()/2, direct)
			if err != nil {
				return err
			}
			p99 = append(p99, open.quantile(0.99)-least.quantile(0.99))
		}
		return nil
	})
	if err != nil {
		return err
	}
	return compare.Show(rounds,
		compare.Figure{Name: "serve/added_p50_ms", Value: compare.Median(p50), Unit: "ms", Against: "onnxruntime in go"},
		compare.Figure{Name: "serve/http_p50_ms", Value: compare.Median(bare), Unit: "ms"},
		compare.Figure{Name: "serve/p99_added_ms", Value: compare.Median(p99), Unit: "ms", Against: "onnxruntime in go"},
	)
}

// withAnswer does something with a server that sends what a gateway would, without an inference.
func withAnswer(ctx context.Context, session *onnx.Session, m mlp, do func(ask) error) error {
	outputs, err := session.Infer(ctx, []oip.Tensor{m.row()})
	if err != nil {
		return err
	}
	answer, err := oip.InferResponse{ModelName: modelName, ModelVersion: "1", Outputs: outputs}.Encode(&oip.InferRequest{})
	if err != nil {
		return err
	}
	return withServer(ctx, func(url string) error {
		rest, err := overREST(url, m)
		if err != nil {
			return err
		}
		return do(rest)
	}, "-answer", string(answer.Body))
}

// measureBatching measures a gateway with batching and one without.
func measureBatching(ctx context.Context, m mlp) error {
	var gains, with, without, tail []float64
	for range rounds {
		var single, joined load
		var slow, fast load
		measure := func(into *load, open *load) func(string) error {
			return func(url string) error {
				rest, err := overREST(url, m)
				if err != nil {
					return err
				}
				if *into, err = closedLoop(ctx, clients, rest); err != nil {
					return err
				}
				*open, err = openLoop(ctx, 0.8*single.rate(), rest)
				return err
			}
		}
		if err := withGateway(ctx, m, 1, measure(&single, &slow)); err != nil {
			return err
		}
		if err := withGateway(ctx, m, 0, measure(&joined, &fast)); err != nil {
			return err
		}
		gains = append(gains, joined.rate()/single.rate())
		with, without = append(with, joined.rate()), append(without, single.rate())
		tail = append(tail, fast.quantile(0.99)/slow.quantile(0.99))
	}
	return compare.Show(rounds,
		compare.Figure{Name: "serve/batched_rps", Value: compare.Median(with), Unit: "1/s"},
		compare.Figure{Name: "serve/unbatched_rps", Value: compare.Median(without), Unit: "1/s"},
		compare.Figure{Name: "serve/batching_gain", Value: compare.Median(gains), Unit: "ratio", Against: "without batching"},
		compare.Figure{Name: "serve/batching_p99", Value: compare.Median(tail), Unit: "ratio", Against: "without batching"},
	)
}
