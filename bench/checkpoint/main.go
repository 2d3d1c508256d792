// Command checkpoint measures what it costs a training that Sluice commits its checkpoints, against the same script that only saves them.
// README.md says what exactly the figure is. It is run from the repository's root.
package main

import (
	"context"
	"flag"
	"fmt"
	"time"

	"github.com/sluiceml/sluice/bench/internal/compare"
	"github.com/sluiceml/sluice/bench/internal/job"
)

const (
	pairs      = 5
	jobTimeout = 10 * time.Minute
	// warm is the step from which on the time counts: by then the agents have nothing else to do.
	warm = 50
)

// saves writes 100 MB a minute, for about a minute.
var saves = job.Shape{Steps: 1500, Pause: 20 * time.Millisecond, Save: 15 * time.Second, Megabytes: 25, Work: 1_000_000}

func main() {
	program := flag.String("sluice", "bin/sluice", "the sluice that is measured")
	flag.Parse()
	compare.Main(func(ctx context.Context) error { return run(ctx, *program) })
}

func run(ctx context.Context, program string) error {
	program, err := compare.Program(program)
	if err != nil {
		return err
	}
	var ours, theirs, ratios []float64
	for range pairs {
		a, err := took(ctx, func(ctx context.Context) (*job.Job, error) {
			return job.Sluice(ctx, job.Options{Program: program}, saves)
		})
		if err != nil {
			return fmt.Errorf("sluice: %w", err)
		}
		b, err := took(ctx, func(ctx context.Context) (*job.Job, error) { return job.Torchrun(ctx, saves) })
		if err != nil {
			return fmt.Errorf("torchrun: %w", err)
		}
		compare.Say("it took %.2f s, and %.2f s without Sluice", a, b)
		ours, theirs, ratios = append(ours, a), append(theirs, b), append(ratios, a/b)
	}
	return compare.Show(pairs,
		compare.Figure{Name: "checkpoint/with_s", Value: compare.Median(ours), Unit: "s"},
		compare.Figure{Name: "checkpoint/without_s", Value: compare.Median(theirs), Unit: "s"},
		compare.Figure{Name: "checkpoint/overhead", Value: compare.Median(ratios), Unit: "ratio", Against: "the same script under torchrun"},
	)
}

// took runs a job and returns how many seconds its steps took.
func took(ctx context.Context, start func(context.Context) (*job.Job, error)) (float64, error) {
	ctx, cancel := context.WithTimeout(ctx, jobTimeout)
	defer cancel()
	j, err := start(ctx)
	if err != nil {
		return 0, err
	}
	defer j.Close()
	if _, err := j.Wait(); err != nil {
		return 0, err
	}
	steps, err := j.Steps()
	if err != nil {
		return 0, err
	}
	if len(steps) != saves.Steps {
		return 0, fmt.Errorf("it made %d steps, want %d", len(steps), saves.Steps)
	}
	return steps[len(steps)-1].At - steps[warm].At, nil
}
