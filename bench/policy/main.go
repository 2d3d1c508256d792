// Command policy measures what keeping a deadline costs: the policy that buys for training steps against greedy and Uniform Progress, on
// real traces of when spot was to be had. README.md says what exactly each figure is. It is run from the repository's root.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/sluiceml/sluice/bench/internal/compare"
	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/training/policy"
)

func main() {
	compare.Main(func(context.Context) error { return run(os.Args[1:]) })
}

// figure is one line of output; its samples are windows.
type figure struct {
	compare.Figure
	Missed int `json:"missed"`
}

// deadlines are those of the job.
var deadlines = []time.Duration{52 * time.Hour, 70 * time.Hour, 92 * time.Hour}

// run measures on the traces that are named, or on those that lie beside the policy.
func run(files []string) error {
	if len(files) == 0 {
		var err error
		if files, err = filepath.Glob("training/policy/testdata/*.json"); err != nil {
			return err
		}
	}
	traces, err := read(files)
	if err != nil {
		return err
	}
	for _, minutes := range []int{3, 12} {
		if err := measure(traces, minutes); err != nil {
			return err
		}
	}
	return nil
}

// measure prints the figures for changeovers of so many minutes: those of each deadline, and how far from the bound all are together.
func measure(traces []policy.Trace, minutes int) error {
	out := json.NewEncoder(os.Stdout)
	all := figure{Figure: compare.Figure{Name: fmt.Sprintf("policy/over_bound_%dm", minutes), Unit: "ratio", Against: "the bound"}}
	var cost, bound float64
	for _, within := range deadlines {
		job := policy.Job{
			Work: 48 * time.Hour, Within: within, Changeover: time.Duration(minutes) * time.Minute,
			Prices: spec.Prices{OnDemand: 3.06, Spot: 0.9731},
		}
		c := policy.Compare(job, traces)
		ours := c.Results[0]
		better := min(c.Results[1].USD, c.Results[2].USD)
		for _, f := range []figure{
			{compare.Figure{Name: "against_better", Value: ours.USD / better, Unit: "ratio", Against: "the cheaper of greedy and Uniform Progress"}, ours.Missed},
			{compare.Figure{Name: "over_bound", Value: ours.USD / c.BoundUSD, Unit: "ratio", Against: "the bound"}, ours.Missed},
			{compare.Figure{Name: "saved", Value: 1 - ours.USD/c.OnDemandUSD, Unit: "share", Against: "on-demand"}, ours.Missed},
			{compare.Figure{Name: "saved_at_most", Value: 1 - c.BoundUSD/c.OnDemandUSD, Unit: "share", Against: "on-demand"}, 0},
		} {
			f.Name, f.Samples = fmt.Sprintf("policy/%.0fh_%dmin/%s", within.Hours(), minutes, f.Name), c.Windows
			if err := out.Encode(f); err != nil {
				return err
			}
		}
		cost, bound = cost+ours.USD, bound+c.BoundUSD
		all.Samples, all.Missed = all.Samples+c.Windows, all.Missed+ours.Missed
	}
	all.Value = cost / bound
	return out.Encode(all)
}

func read(files []string) ([]policy.Trace, error) {
	var traces []policy.Trace
	for _, file := range files {
		f, err := os.Open(file)
		if err != nil {
			return nil, err
		}
		t, err := policy.ReadTrace(f, 1, slices.Max(deadlines))
		if err := errors.Join(err, f.Close()); err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		traces = append(traces, t)
	}
	if len(traces) == 0 {
		return nil, errors.New("there are no traces: run it from the repository's root")
	}
	return traces, nil
}
