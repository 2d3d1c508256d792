package record

import (
	"testing"

	"github.com/sluiceml/sluice/store"
)

// A step that is called run has a record of its own, which is not a run's.
func TestRunsHasRunsOnly(t *testing.T) {
	s, err := store.Open(t.Context(), "file://"+t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for key, value := range map[string]any{
		RunKey("r1"):          RunRecord{Run: "r1"},
		StepKey("r1", "run"):  StepRecord{Step: "run"},
		RunKey("r1.child"):    RunRecord{Run: "r1.child"},
		StepKey("r1", "next"): StepRecord{Step: "next"},
	} {
		if err := s.PutJSON(t.Context(), key, value, store.WriteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	runs, err := Runs(t.Context(), s)
	if err != nil || len(runs) != 2 || runs[0].Run == "" || runs[1].Run == "" {
		t.Errorf("got %+v, %v, want the runs r1 and r1.child", runs, err)
	}
}
