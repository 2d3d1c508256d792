package integration

import (
	"fmt"
	"strings"
	"testing"

	"github.com/sluiceml/sluice/dsl/spec"
)

// TestTabular runs the example of a regression: a model is released, and one that is further off is taken back for that alone.
func TestTabular(t *testing.T) {
	t.Parallel()
	s := copyProject(t, "../examples/tabular")
	s.edit("environment.yaml", "port: 8091", fmt.Sprintf("port: %d", s.port))
	var out spec.RolloutOutput
	first := s.run()
	first.expect(0)
	s.show(first.runID()).Steps["ship"].decode(t, &out)
	last := out.Stages[len(out.Stages)-1].Looks
	if look := last[len(last)-1]; out.Decision != "promoted" || look.Candidate.Loss == nil || *look.Candidate.Loss > 15 || look.Candidate.Errors > 0 {
		t.Errorf("the first model: %s, last look %+v", out.Decision, look)
	}
	worse := s.run("forget=distance", "max_mae=100")
	worse.expect(4)
	s.show(worse.runID()).Steps["ship"].decode(t, &out)
	if out.Decision != "rolled_back" || out.Previous == "" || !strings.Contains(out.Reason, "further from the labels than the release that serves") {
		t.Errorf("the model that forgot a column: %s to %q: %s", out.Decision, out.Previous, out.Reason)
	}
}
