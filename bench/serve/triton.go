package main

import (
	"context"
	"os"
	"path/filepath"

	"github.com/sluiceml/sluice/bench/internal/compare"
	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/serving/triton/layout"
	"github.com/sluiceml/sluice/serving/triton/tritontest"
)

const againstTriton = "tritonserver 2.51.0, python backend"

// compareTriton measures Triton and ours: how much each answers, and how fast at an equal load, half of what the slower one answers.
func compareTriton(ctx context.Context, m mlp) error {
	var rates, gains, tails, theirTails, ratios []float64
	for range rounds {
		var ours, theirs, tail, theirTail load
		most := func(into *load) func(string) error {
			return func(url string) error {
				rest, err := overREST(url, m)
				if err == nil {
					*into, err = closedLoop(ctx, clients, rest)
				}
				return err
			}
		}
		equal := func(into *load) func(string) error {
			return func(url string) error {
				rest, err := overREST(url, m)
				if err == nil {
					*into, err = openLoop(ctx, min(ours.rate(), theirs.rate())/2, rest)
				}
				return err
			}
		}
		if err := withGateway(ctx, m, 0, most(&ours)); err != nil {
			return err
		}
		err := withTriton(ctx, m, func(url string) error {
			if err := most(&theirs)(url); err != nil {
				return err
			}
			return equal(&theirTail)(url)
		})
		if err != nil {
			return err
		}
		if err := withGateway(ctx, m, 0, equal(&tail)); err != nil {
			return err
		}
		rates, gains = append(rates, theirs.rate()), append(gains, ours.rate()/theirs.rate())
		tails, theirTails = append(tails, tail.quantile(0.99)), append(theirTails, theirTail.quantile(0.99))
		ratios = append(ratios, tail.quantile(0.99)/theirTail.quantile(0.99))
	}
	return compare.Show(rounds,
		compare.Figure{Name: "serve/triton_rps", Value: compare.Median(rates), Unit: "1/s", Against: againstTriton},
		compare.Figure{Name: "serve/vs_triton", Value: compare.Median(gains), Unit: "ratio", Against: againstTriton},
		compare.Figure{Name: "serve/equal_load_p99_ms", Value: compare.Median(tails), Unit: "ms"},
		compare.Figure{Name: "serve/triton_p99_ms", Value: compare.Median(theirTails), Unit: "ms", Against: againstTriton},
		compare.Figure{Name: "serve/vs_triton_p99", Value: compare.Median(ratios), Unit: "ratio", Against: againstTriton},
	)
}

// withTriton does something with a Triton at a URL, which has the model as a triton target with the same max_batch as ours lays it out.
func withTriton(ctx context.Context, m mlp, do func(url string) error) error {
	dir, err := os.MkdirTemp("", "sluice-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	to := filepath.Join(dir, modelName)
	if err := os.CopyFS(filepath.Join(to, "1"), os.DirFS(m.dir)); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(to, layout.ConfigFile), layout.ONNXConfig(modelName, spec.DefaultMaxBatch), 0o600); err != nil {
		return err
	}
	server, err := tritontest.Launch(ctx, tritontest.Options{Repository: dir, Quiet: true})
	if err != nil {
		return err
	}
	defer server.Stop()
	if err := server.Load(ctx, modelName); err != nil {
		return err
	}
	return do(server.URL)
}
