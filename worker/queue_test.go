package worker

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.temporal.io/api/enums/v1"

	"github.com/sluiceml/sluice/activities/contract"
	"github.com/sluiceml/sluice/control"
	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/testing/historytest"
)

const queued = `name: queued
params: {go: {type: string}, n: {type: int}}
concurrency: {group: queued}
steps:
  work: {run: {script: 'until [ -e "$GO" ]; do sleep 0.05; done'}, env: {GO: "${params.go}"}}
`

// TestGroupQueues: runs of a group go one after the other, in the order in which they came, also when the one that holds the group is
// terminated and can no longer give it back.
func TestGroupQueues(t *testing.T) {
	t.Parallel()
	s := session(t)
	dir := t.TempDir()
	file := project(t, queued, nil)
	at := func(n int) string { return filepath.Join(dir, strconv.Itoa(n)) }
	runs := make([]string, 4)
	for n := range runs {
		runs[n] = submit(t, s, control.SubmitRequest{PipelineFile: file, Params: map[string]string{"go": at(n), "n": strconv.Itoa(n)}}).Run
		await(t, "run "+runs[n]+" to take its place", func() bool {
			if n == 0 {
				state, err := s.State(t.Context(), runs[0])
				return err == nil && state.Steps[0].Status == spec.StatusRunning
			}
			return places(t, s, runs[n])
		})
	}
	if err := s.Client.TerminateWorkflow(t.Context(), contract.RunWorkflowID(runs[0]), "", "test"); err != nil {
		t.Fatal(err)
	}
	var order []string
	for n := 1; n < len(runs); n++ {
		await(t, "the turn of "+runs[n], func() bool {
			state, err := s.State(t.Context(), runs[n])
			return err == nil && state.Steps[0].Status == spec.StatusRunning
		})
		for m := 1; m < len(runs); m++ {
			if state, err := s.State(t.Context(), runs[m]); err == nil && state.Steps[0].Status == spec.StatusRunning {
				order = append(order, runs[m])
			}
		}
		touch(t, at(n))
		wait(t, s, runs[n])
	}
	if diff := cmp.Diff(runs[1:], order); diff != "" {
		t.Errorf("what ran (-want +got):\n%s", diff)
	}
	lock := contract.LockWorkflowID("queued")
	if err := s.Client.GetWorkflow(t.Context(), lock, "").Get(t.Context(), nil); err != nil {
		t.Errorf("the lock ended with %v", err)
	}
	historytest.Record(t, s.Client, lock, "lock-queue")
}

// places reports whether a run has asked the group's lock for its turn.
func places(t *testing.T, s *control.Session, run string) bool {
	t.Helper()
	events := s.Client.GetWorkflowHistory(t.Context(), contract.LockWorkflowID("queued"), "", false, enums.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
	for events.HasNext() {
		event, err := events.Next()
		if err != nil {
			t.Fatal(err)
		}
		asked := event.GetWorkflowExecutionSignaledEventAttributes()
		if asked.GetSignalName() == contract.WantSignal && strings.Contains(asked.String(), run) {
			return true
		}
	}
	return false
}

func touch(t *testing.T, path string) {
	t.Helper()
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
}
