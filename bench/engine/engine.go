package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/workflow"

	"github.com/sluiceml/sluice/activities/contract"
	"github.com/sluiceml/sluice/bench/internal/compare"
	"github.com/sluiceml/sluice/connect"
	"github.com/sluiceml/sluice/connect/codec"
	"github.com/sluiceml/sluice/internal/testing/noop"
	"github.com/sluiceml/sluice/store"
)

// How many steps the chain has, and how many instances the fan.
const (
	steps     = 100
	instances = 1000
)

// engine is a server with a worker.
type engine struct {
	client client.Client
	store  *store.Store
}

// withEngine does something with an engine that is new, and gone afterwards.
func withEngine(ctx context.Context, do func(engine) error) error {
	dir, err := os.MkdirTemp("", "sluice-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	s, err := store.Open(ctx, "file://"+filepath.Join(dir, "store"))
	if err != nil {
		return err
	}
	conn, err := connect.Dial(ctx, connect.Options{
		Dir: dir, Logger: slog.New(slog.DiscardHandler), Codec: codec.New(nil, s), ServerLogLevel: slog.LevelError,
	})
	if err != nil {
		return err
	}
	defer conn.Close() //nolint:errcheck // what was measured stands
	w := noop.Worker(conn.Client, s, noop.Nothing)
	w.RegisterWorkflowWithOptions(bareChain, workflow.RegisterOptions{Name: "bare-chain"})
	w.RegisterWorkflowWithOptions(bareFan, workflow.RegisterOptions{Name: "bare-fan"})
	w.RegisterWorkflowWithOptions(bareTrue, workflow.RegisterOptions{Name: "bare-true"})
	w.RegisterActivityWithOptions(func(context.Context) error { return nil }, activity.RegisterOptions{Name: "noop"})
	w.RegisterActivityWithOptions(func(ctx context.Context) error { return exec.CommandContext(ctx, "true").Run() }, activity.RegisterOptions{Name: "true"})
	if err := w.Start(); err != nil {
		return err
	}
	defer w.Stop()
	return do(engine{conn.Client, s})
}

// measureEngine measures pipelines of no-op steps against bare workflows of as many no-op activities.
func measureEngine(ctx context.Context) error {
	return withEngine(ctx, func(e engine) error {
		if err := e.compare(ctx, "chain", chainOf(steps), "bare-chain", steps); err != nil {
			return err
		}
		return e.compare(ctx, "fanout", fanOf(instances), "bare-fan", instances)
	})
}

// measureChain measures the chain alone, in seconds.
func measureChain(ctx context.Context) (took []float64, err error) {
	return took, withEngine(ctx, func(e engine) error {
		in, err := noop.Submit(ctx, e.store, chainOf(steps))
		if err != nil {
			return err
		}
		for i := range samples + 1 {
			one, err := e.run(ctx, in, i)
			if err != nil {
				return err
			}
			if i > 0 {
				took = append(took, one)
			}
		}
		return nil
	})
}

// compare measures a pipeline and a bare workflow of n activities in turns, and shows the medians and their ratio.
func (e engine) compare(ctx context.Context, name, source, bare string, n int) error {
	in, err := noop.Submit(ctx, e.store, source)
	if err != nil {
		return err
	}
	var ours, floor []float64
	for i := range samples + 1 {
		took, err := e.run(ctx, in, i)
		if err != nil {
			return err
		}
		least, err := e.timed(ctx, fmt.Sprintf("%s-%d", bare, i), bare, n)
		if err != nil {
			return err
		}
		if i > 0 { // the first pair warms up
			ours, floor = append(ours, took), append(floor, least)
		}
	}
	name = fmt.Sprintf("engine/%s%d", name, n)
	return compare.Show(samples,
		compare.Figure{Name: name + "_s", Value: compare.Median(ours), Unit: "s"},
		compare.Figure{Name: name + "_bare_s", Value: compare.Median(floor), Unit: "s"},
		compare.Figure{Name: name, Value: compare.Median(ours) / compare.Median(floor), Unit: "ratio", Against: "bare temporal"},
	)
}

// run runs a pipeline for the i-th time and returns how many seconds it took.
func (e engine) run(ctx context.Context, in contract.RunInput, i int) (float64, error) {
	in.Run = fmt.Sprintf("%s-%d", in.Name, i)
	return e.timed(ctx, contract.RunWorkflowID(in.Run), contract.PipelineWorkflow, in)
}

// timed runs a workflow and returns how many seconds it took.
func (e engine) timed(ctx context.Context, id, name string, in any) (float64, error) {
	began := time.Now()
	run, err := e.client.ExecuteWorkflow(ctx, client.StartWorkflowOptions{ID: id, TaskQueue: contract.TaskQueue}, name, in)
	if err != nil {
		return 0, err
	}
	if err := run.Get(ctx, nil); err != nil {
		return 0, fmt.Errorf("%s: %w", id, err)
	}
	return time.Since(began).Seconds(), nil
}

// bareChain is the floor of a chain: as many activities, one after the other.
func bareChain(ctx workflow.Context, n int) error { return chainOfActivities(ctx, "noop", n) }

// bareTrue is bareChain with activities that start a program.
func bareTrue(ctx workflow.Context, n int) error { return chainOfActivities(ctx, "true", n) }

func chainOfActivities(ctx workflow.Context, name string, n int) error {
	ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{StartToCloseTimeout: time.Minute})
	for range n {
		if err := workflow.ExecuteActivity(ctx, name).Get(ctx, nil); err != nil {
			return err
		}
	}
	return nil
}

// bareFan is the floor of a fan: as many activities, all at once.
func bareFan(ctx workflow.Context, n int) error {
	ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{StartToCloseTimeout: 10 * time.Minute})
	all := make([]workflow.Future, n)
	for i := range all {
		all[i] = workflow.ExecuteActivity(ctx, "noop")
	}
	for _, one := range all {
		if err := one.Get(ctx, nil); err != nil {
			return err
		}
	}
	return nil
}

// chainOf is a pipeline of no-op steps, each of which waits for the one before and has a gate over its own output.
func chainOf(steps int) string {
	var b strings.Builder
	b.WriteString("sluice: pipeline/v1\nname: chain\nsteps:\n")
	for i := range steps {
		b.WriteString(step(fmt.Sprintf("s%d", i)))
		if i > 0 {
			fmt.Fprintf(&b, "    needs: [s%d]\n", i-1)
		}
	}
	return b.String()
}

// fanOf is a pipeline of one no-op step with many instances, each with a gate over its own output.
func fanOf(instances int) string {
	return fmt.Sprintf("sluice: pipeline/v1\nname: fanout\nsteps:\n%s    foreach: lists.range(%d)\n", step("each"), instances)
}

func step(id string) string {
	return fmt.Sprintf("  %s:\n    run: {command: [noop], outputs: {n: {type: int}}}\n    gate: n >= 1\n", id)
}
