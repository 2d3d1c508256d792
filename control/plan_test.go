package control

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sluiceml/sluice/activities/contract"
	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/store"
	"github.com/sluiceml/sluice/store/record"
)

// A plan says which run of the pipeline is open, and whether `sluice run` would resume it.
func TestPlanSaysWhatIsOpen(t *testing.T) {
	ctx := t.Context()
	s := &Session{Store: newStore(t)}
	s.Dir = t.TempDir()
	file := pipelineIn(t, map[string]string{"train.py": "1"})
	req := SubmitRequest{PipelineFile: file}
	open := func() *contract.OpenRun {
		t.Helper()
		_, plan, err := Plan(ctx, s.Store, s.Dir, SubmitRequest{PipelineFile: file}, "")
		if err != nil {
			t.Fatal(err)
		}
		return plan.Open
	}
	if got := open(); got != nil {
		t.Errorf("without runs: %+v", got)
	}
	in, _, err := s.prepare(ctx, req)
	if err != nil {
		t.Fatal(err)
	}
	run := record.RunRecord{Run: "only-1", Pipeline: "only", Status: spec.StatusRunning, Submission: in.Submission, Graph: in.Graph}
	if err := s.Store.PutJSON(ctx, record.RunKey(run.Run), run, store.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(&contract.OpenRun{Run: "only-1"}, open()); diff != "" {
		t.Errorf("an open run of the same (-want +got):\n%s", diff)
	}
	if err := os.WriteFile(filepath.Join(filepath.Dir(file), "train.py"), []byte("2"), 0o600); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(&contract.OpenRun{Run: "only-1", Differs: []string{"`train.py` has changed"}}, open()); diff != "" {
		t.Errorf("after a file has changed (-want +got):\n%s", diff)
	}
}
