package release

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/sluiceml/sluice/activities/contract"
	"github.com/sluiceml/sluice/control"
	"github.com/sluiceml/sluice/dsl/spec"
)

// TestSamples: what the stage counts is what is shown.
func TestSamples(t *testing.T) {
	look := spec.Look{Candidate: spec.SideCounts{Requests: 4000}, Samples: 84, Counted: "keys answered by the candidate"}
	st := status{Target: "shop", Rollout: &control.Rollout{RolloutState: contract.RolloutState{
		Phase: "stage", Stage: 1, Stages: 2, Asks: &spec.Stage{MinSamples: 500}, Look: &look,
	}}}
	var out bytes.Buffer
	if err := st.text(&out, time.Now()); err != nil {
		t.Fatal(err)
	}
	if want := "84 of 500 keys answered by the candidate"; !strings.Contains(out.String(), want) {
		t.Errorf("no %q in\n%s", want, out.String())
	}
}
