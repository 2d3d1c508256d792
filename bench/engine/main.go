// Command engine measures what the engine costs on top of bare Temporal: a pipeline of no-op steps in a chain, each with a gate,
// against a workflow of as many no-op activities, on the same embedded server in the same process, in turns.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	sdkworker "go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/sluiceml/sluice/activities"
	"github.com/sluiceml/sluice/activities/contract"
	"github.com/sluiceml/sluice/dsl"
	"github.com/sluiceml/sluice/store"
	"github.com/sluiceml/sluice/worker"
	"github.com/sluiceml/sluice/worker/codec"
	"github.com/sluiceml/sluice/workflows"
)

const (
	steps   = 100
	samples = 5
)

func main() {
	if err := run(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, "bench engine:", err)
		os.Exit(1)
	}
}

// figure is one line of output.
type figure struct {
	Name    string  `json:"name"`
	Value   float64 `json:"value"`
	Unit    string  `json:"unit"`
	Against string  `json:"against,omitempty"`
	Samples int     `json:"samples"`
}

func run(ctx context.Context) error {
	dir, err := os.MkdirTemp("", "sluice-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	quiet := slog.New(slog.NewTextHandler(io.Discard, nil))
	s, err := store.Open(ctx, "file://"+filepath.Join(dir, "store"))
	if err != nil {
		return err
	}
	conn, err := worker.Connect(ctx, worker.ConnectOptions{Dir: dir, Logger: quiet, Codec: codec.New(nil, s), ServerLogLevel: slog.LevelError})
	if err != nil {
		return err
	}
	defer conn.Close() //nolint:errcheck // the process ends
	w := sdkworker.New(conn.Client, contract.TaskQueue, sdkworker.Options{})
	register(w, s)
	if err := w.Start(); err != nil {
		return err
	}
	defer w.Stop()
	return measure(ctx, conn.Client, s)
}

// register makes a worker of the real engine, in which what a step does is nothing.
func register(w sdkworker.Worker, s *store.Store) {
	engine := activities.NewEngine(s)
	w.RegisterWorkflowWithOptions(workflows.Pipeline, workflow.RegisterOptions{Name: contract.PipelineWorkflow})
	w.RegisterWorkflowWithOptions(bare, workflow.RegisterOptions{Name: "bare"})
	for name, f := range map[string]any{
		contract.BeginActivity: engine.Begin, contract.ResolveActivity: engine.Resolve,
		contract.JudgeActivity: engine.Judge, contract.FinishActivity: engine.Finish,
		contract.SyncActivity: engine.Sync, contract.RestoreActivity: engine.Restore,
		contract.RunActivity: func(context.Context, contract.StepInput) (contract.StepOutput, error) {
			return contract.StepOutput{Outputs: json.RawMessage(`{"n":1}`)}, nil
		},
		"noop": func(context.Context) error { return nil },
	} {
		w.RegisterActivityWithOptions(f, activity.RegisterOptions{Name: name})
	}
}

// bare is the floor: the same number of activities, one after the other.
func bare(ctx workflow.Context, n int) error {
	ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{StartToCloseTimeout: time.Minute})
	for range n {
		if err := workflow.ExecuteActivity(ctx, "noop").Get(ctx, nil); err != nil {
			return err
		}
	}
	return nil
}

// measure runs both in turns and prints the medians and their ratio.
func measure(ctx context.Context, c client.Client, s *store.Store) error {
	graph, submission, err := submit(ctx, s)
	if err != nil {
		return err
	}
	var chain, floor []float64
	for i := range samples + 1 {
		run := fmt.Sprintf("chain-%d", i)
		took, err := timed(ctx, c, contract.RunWorkflowID(run), contract.PipelineWorkflow,
			contract.RunInput{
				Run: run, Name: "chain", Submission: submission, Graph: graph, Reuse: contract.Reuse{NoCache: true},
			})
		if err != nil {
			return err
		}
		least, err := timed(ctx, c, fmt.Sprintf("bare-%d", i), "bare", steps)
		if err != nil {
			return err
		}
		if i > 0 { // the first pair warms up
			chain, floor = append(chain, took), append(floor, least)
		}
	}
	out := json.NewEncoder(os.Stdout)
	for _, f := range []figure{
		{Name: "engine/chain100_s", Value: median(chain), Unit: "s", Samples: samples},
		{Name: "engine/bare100_s", Value: median(floor), Unit: "s", Samples: samples},
		{Name: "engine/chain100", Value: median(chain) / median(floor), Unit: "ratio", Against: "bare temporal", Samples: samples},
	} {
		if err := out.Encode(f); err != nil {
			return err
		}
	}
	return nil
}

func timed(ctx context.Context, c client.Client, id, name string, in any) (float64, error) {
	began := time.Now()
	run, err := c.ExecuteWorkflow(ctx, client.StartWorkflowOptions{ID: id, TaskQueue: contract.TaskQueue}, name, in)
	if err != nil {
		return 0, err
	}
	if err := run.Get(ctx, nil); err != nil {
		return 0, fmt.Errorf("%s: %w", id, err)
	}
	return time.Since(began).Seconds(), nil
}

func median(v []float64) float64 {
	v = slices.Sorted(slices.Values(v))
	return v[len(v)/2]
}

// submit stores a pipeline of no-op steps in a chain, each with a gate over its own output.
func submit(ctx context.Context, s *store.Store) ([]dsl.Node, string, error) {
	var b strings.Builder
	b.WriteString("sluice: pipeline/v1\nname: chain\nsteps:\n")
	for i := range steps {
		fmt.Fprintf(&b, "  s%d:\n    run: {command: [noop], outputs: {n: {type: int}}}\n    gate: n >= 1\n", i)
		if i > 0 {
			fmt.Fprintf(&b, "    needs: [s%d]\n", i-1)
		}
	}
	sub := contract.Submission{File: "chain.yaml", Pipeline: []byte(b.String())}
	program, diags := dsl.Compile(dsl.File{Name: sub.File, Source: sub.Pipeline}, dsl.File{}, nil)
	if program == nil {
		return nil, "", fmt.Errorf("%s", diags.Text(false))
	}
	raw, err := json.Marshal(sub)
	if err != nil {
		return nil, "", err
	}
	digest, _, err := s.PutBlob(ctx, bytes.NewReader(raw))
	return program.Graph(), digest, err
}
