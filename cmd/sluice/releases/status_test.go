package releases

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/sluiceml/sluice/activities/contract"
	"github.com/sluiceml/sluice/control"
	"github.com/sluiceml/sluice/dsl/spec"
)

// TestSamples: what the stage counts is what is shown, whichever build has looked.
func TestSamples(t *testing.T) {
	answered := spec.Look{Candidate: spec.SideCounts{Requests: 4000}, Delta: spec.Delta{Samples: 12}}
	keys := answered
	keys.Samples, keys.Counted = 84, "keys answered by the candidate"
	for _, tc := range []struct {
		name   string
		shadow spec.Share
		look   spec.Look
		want   string
	}{
		{"keys", 0, keys, "84 of 500 keys answered by the candidate"},
		{"an earlier build's", 0, answered, "4,000 of 500 answers"},
		{"an earlier build's, of a shadow", 1, answered, "12 of 500 answers compared"},
	} {
		st := status{Target: "shop", Rollout: &control.Rollout{RolloutState: contract.RolloutState{
			Phase: "stage", Stage: 1, Stages: 2, Shadow: tc.shadow, Asks: &spec.Stage{MinSamples: 500}, Look: &tc.look,
		}}}
		var out bytes.Buffer
		if err := st.text(&out, time.Now()); err != nil {
			t.Fatal(err)
		}
		got := ""
		for line := range strings.Lines(out.String()) {
			if rest, ok := strings.CutPrefix(line, "samples"); ok {
				got = strings.TrimSpace(rest)
			}
		}
		if got != tc.want {
			t.Errorf("%s: %q, want %q", tc.name, got, tc.want)
		}
	}
}
