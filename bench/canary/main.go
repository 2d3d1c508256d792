// Command canary measures how rollouts judge: how often a candidate that is as good is aborted, how often one with three times the errors is
// missed, and after how many looks it is found, beside other ways to judge a canary. Rollouts are simulated, and judged by the code that
// judges real ones. README.md says what exactly each figure is.
package main

import (
	"context"
	"flag"
	"maps"
	"runtime"
	"slices"
	"sync"

	"github.com/sluiceml/sluice/bench/internal/compare"
)

func main() {
	rollouts := flag.Int("rollouts", 4000, "how many rollouts to simulate of each kind")
	flag.Parse()
	compare.Main(func(ctx context.Context) error { return run(ctx, *rollouts) })
}

// found is at which look each judge aborted each rollout of a kind, from 1; 0 where it never did.
type found map[string][]int

// judge simulates rollouts of a kind on all cores. Each has a seed of its own, so that the figures do not depend on how many there are.
func judge(ctx context.Context, kind kind, rollouts int) (found, error) {
	results := make([]map[string]int, rollouts)
	var group sync.WaitGroup
	workers := runtime.GOMAXPROCS(0)
	for w := range workers {
		group.Go(func() {
			for i := w; i < rollouts && ctx.Err() == nil; i += workers {
				results[i] = simulate(kind, uint64(i))
			}
		})
	}
	group.Wait()
	all := found{}
	for _, result := range results {
		for name, look := range result {
			all[name] = append(all[name], look)
		}
	}
	return all, ctx.Err()
}

// aborted is the share of rollouts that a judge aborted.
func (f found) aborted(judge string) float64 {
	n := 0
	for _, look := range f[judge] {
		if look > 0 {
			n++
		}
	}
	return float64(n) / float64(len(f[judge]))
}

// medianLooks is after how many looks a judge has aborted half of the rollouts; 0 when it aborts fewer.
func (f found) medianLooks(judge string) float64 {
	looks := make([]float64, len(f[judge]))
	for i, look := range f[judge] {
		if looks[i] = float64(look); look == 0 {
			looks[i] = maxLooks + 1
		}
	}
	if median := compare.Median(looks); median <= maxLooks {
		return median
	}
	return 0
}

func run(ctx context.Context, rollouts int) error {
	var falseAborts, missed, looks float64
	for _, kind := range kinds {
		compare.Say("%d rollouts: %s", rollouts, kind.name)
		f, err := judge(ctx, kind, rollouts)
		if err != nil {
			return err
		}
		for _, name := range slices.Sorted(maps.Keys(f)) {
			figures := []compare.Figure{{Name: "canary/" + kind.name + "/false_aborts", Value: f.aborted(name), Unit: "share", Against: name}}
			if kind.worse {
				figures = []compare.Figure{
					{Name: "canary/" + kind.name + "/missed", Value: 1 - f.aborted(name), Unit: "share", Against: name},
					{Name: "canary/" + kind.name + "/median_looks", Value: f.medianLooks(name), Unit: "looks", Against: name},
				}
			}
			if name == ours {
				for i := range figures {
					figures[i].Against = ""
				}
			}
			if err := compare.Show(rollouts, figures...); err != nil {
				return err
			}
		}
		switch {
		case kind.apart:
		case kind.worse:
			missed, looks = max(missed, 1-f.aborted(ours)), max(looks, f.medianLooks(ours))
		default:
			falseAborts = max(falseAborts, f.aborted(ours))
		}
	}
	return compare.Show(rollouts,
		compare.Figure{Name: "canary/false_aborts", Value: falseAborts, Unit: "share"},
		compare.Figure{Name: "canary/missed", Value: missed, Unit: "share"},
		compare.Figure{Name: "canary/median_looks", Value: looks, Unit: "looks"},
	)
}
