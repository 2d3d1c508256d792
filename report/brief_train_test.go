package report

import (
	"strings"
	"testing"

	"github.com/sluiceml/sluice/dsl/spec"
)

func TestBriefTrainSaysWhatWasBought(t *testing.T) {
	out := spec.TrainOutput{Steps: 10, Generations: []spec.Generation{{}, {}}, Late: true, Ledger: []spec.LedgerLine{
		{Capacity: spec.CapacitySpot, NodeSeconds: 60}, {Capacity: spec.CapacitySpot, NodeSeconds: 60}, {Capacity: spec.CapacityOnDemand, NodeSeconds: 9},
	}}
	want := "10 steps, 2 generations, after its deadline, 2m 00s of spot, 9.0 s of on-demand"
	if got := strings.Join(briefTrain(out), ", "); got != want {
		t.Errorf("%q, want %q", got, want)
	}
	out.Ledger = out.Ledger[:1]
	if got := strings.Join(briefTrain(out), ", "); strings.Contains(got, "spot") {
		t.Errorf("%q says what was bought where there was no choice", got)
	}
}
