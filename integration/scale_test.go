package integration

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.temporal.io/sdk/temporal"

	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/fault"
	"github.com/sluiceml/sluice/internal/testing/noop"
	"github.com/sluiceml/sluice/store/record"
)

const (
	// maxHistory is Temporal's own threshold: above it a history is suggested to be continued in a new one.
	maxHistory = 4096
	maxMemory  = 1024 // MiB
)

// foreach is a pipeline with a step of many instances, and one that reads them all.
func foreach(instances int) string {
	return "sluice: pipeline/v1\nname: wide\nsteps:\n" +
		step("fit", fmt.Sprintf("    foreach: lists.range(%d)\n    max_parallel: 200\n", instances)) +
		step("all", fmt.Sprintf("    when: steps.fit.size() == %d && steps.fit.all(f, f.n == 1)\n", instances))
}

// chain is a pipeline whose steps wait for one another.
func chain(steps int) string {
	var b strings.Builder
	b.WriteString("sluice: pipeline/v1\nname: chain\nsteps:\n")
	for i := range steps {
		needs := ""
		if i > 0 {
			needs = fmt.Sprintf("    needs: [s%d]\n", i-1)
		}
		b.WriteString(step(fmt.Sprintf("s%d", i), needs))
	}
	return b.String()
}

// TestScale: the largest graphs that are promised finish, in histories and in memory that stay in bounds.
func TestScale(t *testing.T) {
	instances, steps := sized(10_000, 500), sized(2000, 200)
	for name, source := range map[string]string{"foreach": foreach(instances), "chain": chain(steps)} {
		t.Run(name, func(t *testing.T) {
			forgetMemory(t)
			var done atomic.Int64
			e := newEngine(t, func(ctx context.Context, in record.StepInput) (record.StepOutput, error) {
				done.Add(1)
				return noop.Nothing(ctx, in)
			})
			began := time.Now()
			var out record.RunOutput
			if err := e.start("big", e.submit(source)).Get(t.Context(), &out); err != nil {
				t.Fatal(err)
			}
			took := time.Since(began)
			e.awaitNoneOpen()
			workflows, longest := e.longestHistory()
			t.Logf("%d executions of steps in %v, %d histories, the longest of %d events, %d MiB", done.Load(), took, workflows, longest, memory(t))
			want := map[string]int64{"foreach": int64(instances) + 1, "chain": int64(steps)}[name]
			if out.Status != spec.StatusSucceeded || done.Load() != want {
				t.Errorf("the run ended as %+v; %d steps and instances were done, want %d", out, done.Load(), want)
			}
			if longest > maxHistory {
				t.Errorf("a history has %d events", longest)
			}
			if used := memory(t); used > maxMemory {
				t.Errorf("the process held %d MiB", used)
			}
		})
	}
}

// TestNothingRunsAtScale: steps that end without running, which all happens within one workflow task, leave histories in bounds too.
func TestNothingRunsAtScale(t *testing.T) {
	waiting := sized(4_900, 2_100)
	var needing, onFailure strings.Builder
	for i := range waiting {
		needing.WriteString(step(fmt.Sprintf("w%d", i), "    needs: [first]\n"))
		onFailure.WriteString(step(fmt.Sprintf("w%d", i), ""))
	}
	head := "sluice: pipeline/v1\nname: big\nsteps:\n" + step("first", "")
	for name, tt := range map[string]struct {
		source string
		fails  error
		status spec.Status
		each   spec.Status
	}{
		"upstream": {head + needing.String(), temporal.NewNonRetryableApplicationError("broken", fault.User, nil), spec.StatusFailed, spec.StatusUpstream},
		"omitted":  {head + "on_failure:\n" + onFailure.String(), nil, spec.StatusSucceeded, spec.StatusSkipped},
	} {
		t.Run(name, func(t *testing.T) {
			e := newEngine(t, func(ctx context.Context, in record.StepInput) (record.StepOutput, error) {
				if tt.fails != nil {
					return record.StepOutput{}, tt.fails
				}
				return noop.Nothing(ctx, in)
			})
			run := e.start("big", e.submit(tt.source))
			if err := run.Get(t.Context(), nil); (err != nil) != (tt.fails != nil) {
				t.Errorf("the run ended with %v", err)
			}
			e.awaitNoneOpen()
			ended, err := record.LoadRun(t.Context(), e.store, "big")
			if err != nil {
				t.Fatal(err)
			}
			if ended.Status != tt.status || len(ended.Steps) != waiting+1 {
				t.Errorf("the run is %s with %d steps, want %s with %d", ended.Status, len(ended.Steps), tt.status, waiting+1)
			}
			for _, one := range ended.Steps[1:] {
				if one.Status != tt.each {
					t.Fatalf("%s is %s, want %s", one.Step, one.Status, tt.each)
				}
			}
			if workflows, longest := e.longestHistory(); longest > maxHistory {
				t.Errorf("of %d histories one has %d events", workflows, longest)
			} else {
				t.Logf("%d histories, the longest of %d events", workflows, longest)
			}
		})
	}
}

// TestCancelAtScale: a cancel in the middle leaves nothing open, and the record says how far it came.
func TestCancelAtScale(t *testing.T) {
	instances := sized(10_000, 500)
	var done atomic.Int64
	half := make(chan struct{})
	e := newEngine(t, func(ctx context.Context, in record.StepInput) (record.StepOutput, error) {
		if done.Add(1) == int64(instances)/2 {
			close(half)
		}
		return noop.Nothing(ctx, in)
	})
	run := e.start("big", e.submit(foreach(instances)))
	select {
	case <-half:
	case <-time.After(10 * time.Minute):
		t.Fatal("the run does not get on")
	}
	if err := e.client.CancelWorkflow(t.Context(), run.GetID(), ""); err != nil {
		t.Fatal(err)
	}
	if err := run.Get(t.Context(), nil); !temporal.IsCanceledError(err) {
		t.Errorf("the run ended with %v, want a cancel", err)
	}
	e.awaitNoneOpen()
	record, err := record.LoadRun(t.Context(), e.store, "big")
	if err != nil {
		t.Fatal(err)
	}
	fit := record.Steps[0]
	if record.Status != spec.StatusCanceled || fit.Status != spec.StatusCanceled || fit.Of != instances || fit.Passed < instances/2-200 || fit.Passed >= instances {
		t.Errorf("the run is %s, its step %s with %d of %d passed", record.Status, fit.Status, fit.Passed, fit.Of)
	}
	if _, longest := e.longestHistory(); longest > maxHistory {
		t.Errorf("a history has %d events", longest)
	}
}
