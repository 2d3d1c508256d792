package agent

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sluiceml/sluice/training/protocol"
)

func TestWorkOfRanks(t *testing.T) {
	m, f := followed(t, "", 0)
	if got := m.slowest(); got != nil {
		t.Errorf("before any line: %+v", got)
	}
	text := `{"step": 1, "of": 9, "loss": 0.5, "rank": 0, "work_seconds": 0.1}
{"step": 1, "rank": 1, "work_seconds": 0.3}
{"step": 2, "rank": 1, "work_seconds": 0.2}
{"step": 2, "rank": 1, "work_seconds": -1}
{"step": 2, "rank": 1, "work_seconds": NaN}
{"step": 3, "rank": 1, "work_seconds": 0.9}
`
	if _, err := f.WriteString(text); err != nil {
		t.Fatal(err)
	}
	m.read(true)
	if diff := cmp.Diff(&protocol.StepWork{Rank: 1, Seconds: 0.3, Steps: 3}, m.slowest()); diff != "" {
		t.Errorf("the slowest rank (-want +got):\n%s", diff)
	}
	if step := m.state().Step; step != 2 { // a line without a valid time is read as any other
		t.Errorf("step %d is done, want 2", step)
	}
	if kept := linesUpTo(t, m, 9); strings.Contains(kept, "0.3") || !strings.Contains(kept, `"loss": 0.5`) {
		t.Errorf("kept of the metrics: %s", kept)
	}
}
