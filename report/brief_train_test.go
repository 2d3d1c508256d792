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

// What was done again is said whatever it was lost by: a node, a rank that crashed, or a damaged checkpoint.
func TestBriefTrainSaysWhatWasLost(t *testing.T) {
	for _, tt := range []struct {
		out  spec.TrainOutput
		want string
	}{
		{spec.TrainOutput{}, ""},
		{spec.TrainOutput{Steps: 60, Generations: []spec.Generation{{End: spec.EndFinished}}}, "60 steps, 1 generation"},
		{
			spec.TrainOutput{Steps: 60, StepsLost: 9, StepsRepeated: 9, Generations: []spec.Generation{{End: spec.EndCrashed}, {End: spec.EndFinished}}},
			"60 steps, 2 generations, 1 failed attempt, 9 steps lost, 9 repeated",
		},
		{
			spec.TrainOutput{Steps: 90, StepsLost: 69, StepsRepeated: 69, Generations: []spec.Generation{{End: spec.EndNotice}, {End: spec.EndNotice, NotResumed: true}, {End: spec.EndFinished, FromStep: 70}}},
			"90 steps, 3 generations, the last began at step 71, 2 interruptions (2 with notice), 1 generation did not resume, 69 steps lost, 69 repeated",
		},
		{
			spec.TrainOutput{Steps: 60, StepsLost: 8, Generations: []spec.Generation{{End: spec.EndNodeLost}, {End: spec.EndNotice}, {End: spec.EndUserError}}},
			"60 steps, 3 generations, 2 interruptions (1 with notice), 1 failed attempt, 8 steps lost, 0 repeated",
		},
		{
			spec.TrainOutput{Steps: 60, StepsLost: 30, StepsRepeated: 30, Generations: []spec.Generation{{End: spec.EndNodeLost}, {End: spec.EndDamaged}, {End: spec.EndFinished}}},
			"60 steps, 3 generations, 1 interruption (0 with notice), 1 damaged checkpoint, 30 steps lost, 30 repeated",
		},
		{
			spec.TrainOutput{Steps: 1201, StepsLost: 1, Generations: []spec.Generation{{End: spec.EndUserError, CommittedStep: 1200}}},
			"1,201 steps, 1 generation, 1 failed attempt, 1 step lost, 0 repeated, saved at step 1,200, `sluice rerun` resumes from its newest checkpoint",
		},
	} {
		if got := strings.Join(briefTrain(tt.out), ", "); got != tt.want {
			t.Errorf("%q, want %q", got, tt.want)
		}
	}
}
