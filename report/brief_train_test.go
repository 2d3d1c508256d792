package report

import (
	"strings"
	"testing"

	"github.com/sluiceml/sluice/dsl"
)

func TestBriefTrainSaysWhatWasBought(t *testing.T) {
	out := dsl.TrainOutput{Steps: 10, Generations: []dsl.Generation{{}, {}}, Late: true, Ledger: []dsl.LedgerLine{
		{Capacity: dsl.CapacitySpot, NodeSeconds: 60}, {Capacity: dsl.CapacitySpot, NodeSeconds: 60}, {Capacity: dsl.CapacityOnDemand, NodeSeconds: 9},
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
