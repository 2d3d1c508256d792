package worker

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.temporal.io/sdk/client"

	"github.com/sluiceml/sluice/activities/contract"
	"github.com/sluiceml/sluice/control"
	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/fault"
	"github.com/sluiceml/sluice/internal/notify"
	"github.com/sluiceml/sluice/store"
	"github.com/sluiceml/sluice/store/record"
)

// TestLostRunWithLiveChild: the record of a run that Temporal has lost is closed, and those of its children that are lost too, though a
// child goes on. That one closes its own.
func TestLostRunWithLiveChild(t *testing.T) {
	t.Parallel()
	s := session(t)
	const run = "lost"
	children := []string{run + ".a", run + ".b", run + ".c"}
	alive := children[1]
	for _, id := range append(children, run) {
		rec := record.RunRecord{Run: id, Pipeline: "lost", Status: spec.StatusRunning}
		if err := s.Store.PutJSON(t.Context(), record.RunKey(id), rec, store.WriteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	// Nobody works on its queue, so that it is open until the end.
	_, err := s.Client.ExecuteWorkflow(t.Context(), client.StartWorkflowOptions{ID: contract.RunWorkflowID(alive), TaskQueue: "nobody"},
		contract.PipelineWorkflow)
	if err != nil {
		t.Fatal(err)
	}

	out, _ := wait(t, s, run)
	if out.Status != spec.StatusFailed || out.Error != "Temporal has no workflow of this run: its database was lost or replaced" {
		t.Errorf("the run ended as %+v", out)
	}
	got := map[string]spec.Status{}
	for _, id := range append(children, run) {
		var rec record.RunRecord
		if err := s.Store.GetJSON(t.Context(), record.RunKey(id), &rec); err != nil {
			t.Fatal(err)
		}
		got[id] = rec.Status
	}
	want := map[string]spec.Status{run: spec.StatusFailed, run + ".a": spec.StatusFailed, alive: spec.StatusRunning, run + ".c": spec.StatusFailed}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("records (-want +got):\n%s", diff)
	}
}

// TestTerminatedRun: the record of a run that somebody terminates is closed by the worker, its state is not said to be running, and who
// wants to hear of failures hears of it once.
func TestTerminatedRun(t *testing.T) {
	t.Parallel()
	s := session(t)
	heard := make(chan notify.Message, 10)
	hook := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		var m notify.Message
		if err := json.NewDecoder(r.Body).Decode(&m); err != nil {
			t.Error(err)
		}
		heard <- m
	}))
	defer hook.Close()
	run := submit(t, s, control.SubmitRequest{PipelineFile: project(t, fmt.Sprintf(`name: terminated
steps: {a: {run: {command: [sleep, "600"]}}, b: {needs: [a], run: {command: ["true"]}}}
notify: {ops: {webhook: {url: %q}, on: [fail]}}
`, hook.URL), nil)}).Run
	await(t, "the step to begin", func() bool {
		state, err := s.State(t.Context(), run)
		return err == nil && state.Steps[0].Status == spec.StatusRunning
	})
	if err := s.Client.TerminateWorkflow(t.Context(), contract.RunWorkflowID(run), "", "no patience"); err != nil {
		t.Fatal(err)
	}
	if state, err := s.State(t.Context(), run); err != nil || state.Status != spec.StatusFailed {
		t.Errorf("its state is %s (%v), want failed", state.Status, err)
	}
	var rec record.RunRecord
	await(t, "the end of the record", func() bool {
		if err := s.Store.GetJSON(t.Context(), record.RunKey(run), &rec); err != nil {
			t.Fatal(err)
		}
		return rec.Status != spec.StatusRunning
	})
	if rec.Status != spec.StatusFailed || rec.ErrorType != fault.Infrastructure || !strings.Contains(rec.Error, "terminated") || rec.EndedAt.IsZero() {
		t.Errorf("the record is closed as %s: %s (%s) at %v", rec.Status, rec.Error, rec.ErrorType, rec.EndedAt)
	}
	whole, err := record.LoadRun(t.Context(), s.Store, run)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]spec.Status{"a": spec.StatusFailed, "b": spec.StatusUpstream}, statuses(whole)); diff != "" {
		t.Errorf("steps (-want +got):\n%s", diff)
	}
	select {
	case m := <-heard:
		if m.Event != spec.EventFail || m.Run != run || m.Text != rec.Error {
			t.Errorf("message %+v", m)
		}
	case <-time.After(testLimit):
		t.Error("nobody has heard of it")
	}
	if out, _ := wait(t, s, run); out.Status != spec.StatusFailed {
		t.Errorf("the run ended as %+v", out)
	}
	if closed, err := s.CloseLost(t.Context(), run); err != nil || closed {
		t.Errorf("a closed record is closed again: %v, %v", closed, err)
	}
	if n := len(heard); n > 0 {
		t.Errorf("%d more messages came", n)
	}
}

// TestEndedState: a run that has ended in order says how.
func TestEndedState(t *testing.T) {
	t.Parallel()
	s := session(t)
	run := submit(t, s, control.SubmitRequest{PipelineFile: project(t, `name: over
steps: {a: {run: {command: ["true"]}}}
`, nil)}).Run
	wait(t, s, run)
	if state, err := s.State(t.Context(), run); err != nil || state.Status != spec.StatusSucceeded {
		t.Errorf("its state is %s (%v), want succeeded", state.Status, err)
	}
}
