package report

import (
	"math"
	"testing"

	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/metrics"
)

func TestTrainStorySaysWhatIsNotExactAndWhatDiverged(t *testing.T) {
	story := newTrainStory(spec.TrainOutput{StepsLost: 6, StepsRepeated: 6, StepsAtLeast: true, Generations: []spec.Generation{{End: spec.EndHung}}}, []Point{
		{Step: 1, Loss: 2}, {Step: 2, Loss: metrics.Number(math.NaN())}, {Step: 3, Loss: metrics.Number(math.Inf(1))},
	})
	tiles := map[string]string{}
	for _, tile := range story.Tiles {
		tiles[tile.Name] = tile.Value
	}
	for name, want := range map[string]string{"failed attempts": "1", "steps lost": "at least 6", "steps repeated": "at least 6", "loss no finite number from step": "2"} {
		if tiles[name] != want {
			t.Errorf("%s: %q, want %q", name, tiles[name], want)
		}
	}
}
