package report

import (
	"slices"
	"testing"

	"github.com/sluiceml/sluice/dsl/spec"
)

// TestSyntheticRequestsAreTold: who reads that a release passed must know that no user was asked.
func TestSyntheticRequestsAreTold(t *testing.T) {
	for _, synthetic := range []bool{true, false} {
		out := spec.RolloutOutput{
			Target: "t", Version: "2", Decision: "promoted", URL: "http://127.0.0.1:8080",
			Stages: []spec.StageResult{{Weight: 1, Looks: []spec.Look{{Decision: "pass", Synthetic: synthetic}}}},
		}
		if told := slices.Contains(briefRollout(out), "tested with replayed rows"); told != synthetic || newRolloutStory(out).Synthetic() != synthetic {
			t.Errorf("synthetic %v: %q", synthetic, briefRollout(out))
		}
	}
}
