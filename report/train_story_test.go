package report

import (
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/metrics"
)

func TestTrainStorySaysWhatIsNotExactAndWhatDiverged(t *testing.T) {
	story := newTrainStory(spec.KindTrain, spec.TrainOutput{StepsLost: 6, StepsRepeated: 6, StepsAtLeast: true, Generations: []spec.Generation{{End: spec.EndHung}}}, []Point{
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

// The report shows what node time was spent on, and a cost that nobody knows as such.
func TestTrainStoryShowsOutcomes(t *testing.T) {
	usd := 3.0
	story := newTrainStory(spec.KindTrain, spec.TrainOutput{Outcomes: spec.Outcomes{
		Useful: spec.Spent{NodeSeconds: 60, CostUSD: &usd}, Lost: spec.Spent{NodeSeconds: 30}, NeverStarted: spec.Spent{NodeSeconds: 30, CostUSD: &usd},
	}}, nil)
	type row struct {
		Name, Cost  string
		Width, Part float64
	}
	var rows []row
	for _, s := range story.Spent {
		rows = append(rows, row{s.Name, s.Cost(), s.Width, s.Part})
	}
	want := []row{{"useful steps", "$3.00", 100, 0.5}, {"lost steps", "unknown", 50, 0.25}, {"overhead", "unknown", 0, 0}, {"never started", "$3.00", 50, 0.25}}
	if diff := cmp.Diff(want, rows); diff != "" || !story.HasSpent() {
		t.Errorf("node time (-want +got):\n%s", diff)
	}
}
