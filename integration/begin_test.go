package integration

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/sluiceml/sluice/control"
	"github.com/sluiceml/sluice/dsl/spec"
)

// descendPipeline begins children side by side.
const descendPipeline = `sluice: pipeline/v1
name: descend
params: {number: {type: int}}
steps:
  each:
    when: params.number >= 0
    foreach: lists.range(4)
    pipeline:
      steps:
        a: {run: {command: ["true"]}}
        b: {run: {command: ["true"]}, needs: [a]}
`

// TestKilledAtBirth kills the worker whenever a run has just opened its record, which is before Temporal has heard of it: the run, or that of
// a child pipeline, goes on all the same.
func TestKilledAtBirth(t *testing.T) {
	c := newChaos(t, 1)
	write(t, filepath.Join(c.project, "pipeline.yaml"), descendPipeline)
	c.begin(0)
	known := map[string]bool{}
	for i := range sized(10, 2) {
		run, err := c.session.Submit(t.Context(), control.SubmitRequest{
			PipelineFile: filepath.Join(c.project, "pipeline.yaml"), Params: map[string]string{"number": fmt.Sprint(i)}, NoCache: true,
		})
		if err != nil {
			t.Fatal(err)
		}
		for _, born := range []string{run.Run, run.Run + ".each.*"} {
			c.birth(born, known)
			kill(t, c.workers[0].cmd.Process.Pid, syscall.SIGKILL)
			<-c.workers[0].done
			c.births(born, known) // whoever was born in the meantime is dead, too
			c.begin(0)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
		out, err := c.session.Wait(ctx, run.Run)
		cancel()
		if err != nil || out.Status != spec.StatusSucceeded {
			t.Errorf("run %s ended as %+v: %v", run.Run, out, err)
		}
	}
}

// birth waits until a run opens its record, whose name matches the pattern.
func (c *chaos) birth(pattern string, known map[string]bool) {
	c.t.Helper()
	for end := time.Now().Add(testLimit); !c.births(pattern, known); {
		if time.Now().After(end) {
			c.t.Fatalf("no run %s has begun", pattern)
		}
	}
}

// births reports whether there are records that were not known, and knows them.
func (c *chaos) births(pattern string, known map[string]bool) (begun bool) {
	c.t.Helper()
	paths, err := filepath.Glob(filepath.Join(c.state, "store", "runs", pattern, "run.json"))
	if err != nil {
		c.t.Fatal(err)
	}
	for _, path := range paths {
		if _, err := os.Stat(path); err == nil && !known[path] {
			known[path], begun = true, true
		}
	}
	return begun
}
