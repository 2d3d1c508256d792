package contract

import (
	"testing"

	"pgregory.net/rapid"
)

func TestRunWorkflowID(t *testing.T) {
	for _, tt := range []struct{ run, workflow string }{
		{"spam-20260102-030405-ab12", "run/spam-20260102-030405-ab12"},
		{"spam-nightly-20260102T030405Z", "run/spam-nightly-2026-01-02T03:04:05Z"}, // as Temporal makes it
		{"spam-20260102T030405Z-x", "run/spam-20260102T030405Z-x"},
		{"a/b", "run/a/b"},
	} {
		if got := RunWorkflowID(tt.run); got != tt.workflow {
			t.Errorf("the workflow of %s is %s, want %s", tt.run, got, tt.workflow)
		}
		if got := RunOf(tt.workflow); got != tt.run {
			t.Errorf("the run of %s is %s, want %s", tt.workflow, got, tt.run)
		}
	}
	if got := RunOf("watch/spam/drift"); got != "" {
		t.Errorf("a watch is the run %q", got)
	}
}

// TestRunWorkflowIDIsOneToOne: whatever a run is called, its workflow leads back to it.
func TestRunWorkflowIDIsOneToOne(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		run := rapid.StringMatching(`[a-z][a-z0-9._-]{0,20}(-[0-9]{8}T[0-9]{6}Z|-[0-9]{8}-[0-9]{6}-[0-9a-f]{4})?`).Draw(t, "run")
		if got := RunOf(RunWorkflowID(run)); got != run {
			t.Fatalf("%s came back as %s", run, got)
		}
	})
}
