package agent

import (
	"strings"
	"testing"

	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/fault"
)

// A program that exits with 0 before its last step, without its outputs, may have been asked to by a peer that was told to stop: the agent
// says what there is not, and leaves it to the workflow whose fault that is. At the last step it is the program's.
func TestExitBeforeTheLastStep(t *testing.T) {
	var sp spec.Train
	sp.Outputs = map[string]spec.OutputDecl{"model": {Type: "model", Path: "model"}}
	early := startGang(t, 1, sp, `echo '{"step": 4, "of": 10}' >> "$SLUICE_METRICS"`)
	if end := early.end(t, 0); end.Step != 4 || !strings.Contains(end.Unfinished, "model") {
		t.Errorf("ended %+v at step 4 of 10, want to hear of the output", end)
	}
	sp.TotalSteps = 10
	last := startGang(t, 1, sp, `echo '{"step": 10}' >> "$SLUICE_METRICS"`)
	<-last.ranks[0].done
	if err := last.ranks[0].err; fault.TypeOf(err) != fault.User || !strings.Contains(fault.Message(err), "model") {
		t.Errorf("%v, want the user's error", err)
	}
}

// A script whose data has no end says so as Python does. That is no number of steps, of which none would be left.
func TestEndlessTrainingSaysNoTotal(t *testing.T) {
	g := startGang(t, 1, spec.Train{}, `echo '{"step": 4, "of": Infinity}' >> "$SLUICE_METRICS"`)
	if end := g.end(t, 0); end.Step != 4 || !end.Short(0) {
		t.Errorf("ended %+v, want one that has steps left", end)
	}
}
