package integration

import (
	"testing"

	"github.com/sluiceml/sluice/dsl"
)

func TestTrainUndisturbed(t *testing.T) {
	b := newTrainBench(t, "", engineConfig{})
	b.execute()
	o := b.result()
	b.checkAccount(o)
	if len(o.Generations) != 1 || o.Generations[0].End != dsl.EndFinished {
		t.Errorf("generations: %+v", o.Generations)
	}
}

func TestTrainSurvivesInterruptions(t *testing.T) {
	b := newTrainBench(t, ", interruptions: {mean_up: 2s, notice: 3s, without_notice: 50%}", engineConfig{})
	b.env["STEPS"], b.env["STEP_SECONDS"] = "250", "0.03"
	b.execute()
	o := b.result()
	b.checkAccount(o)
	ends := map[dsl.GenerationEnd]int{}
	for _, g := range o.Generations {
		ends[g.End]++
	}
	if ends[dsl.EndNotice] == 0 || ends[dsl.EndNodeLost] == 0 || ends[dsl.EndFinished] != 1 {
		t.Errorf("ends of generations: %v, want some with and some without notice", ends)
	}
}
