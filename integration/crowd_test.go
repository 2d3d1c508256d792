package integration

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"go.temporal.io/sdk/client"

	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/testing/noop"
	"github.com/sluiceml/sluice/store/record"
)

// TestCrowd: many runs at once on the embedded server, whose SQLite file has one writer. All of them end.
func TestCrowd(t *testing.T) {
	runs := sized(1000, 50)
	e := newEngine(t, noop.Nothing)
	in := e.submit(chain(3))
	began := time.Now()
	started := make([]client.WorkflowRun, runs)
	var starting sync.WaitGroup
	for i := range runs {
		starting.Go(func() { started[i] = e.start(fmt.Sprintf("r%d", i), in) })
	}
	starting.Wait()
	startedAfter := time.Since(began)
	for _, run := range started {
		var out record.RunOutput
		if err := run.Get(t.Context(), &out); err != nil || out.Status != spec.StatusSucceeded {
			t.Fatalf("%s ended as %+v: %v", run.GetID(), out, err)
		}
	}
	took := time.Since(began)
	e.awaitNoneOpen()
	t.Logf("%d runs of 3 steps: all started after %v, ended after %v; %.0f steps a second, %d MiB",
		runs, startedAfter.Round(time.Millisecond), took.Round(time.Millisecond), 3*float64(runs)/took.Seconds(), memory(t))
}
