package worker

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.temporal.io/sdk/client"

	"github.com/sluiceml/sluice/activities/contract"
	"github.com/sluiceml/sluice/dsl/spec"
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
