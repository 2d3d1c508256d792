package report

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sluiceml/sluice/dsl/spec"
)

func TestTrainStoryTellsOfGPUs(t *testing.T) {
	began := time.Unix(1000, 0)
	a100 := spec.GPUUse{
		Count: 2, Model: "NVIDIA A100", Utilization: 0.5, Memory: 40 << 30, MemoryPeak: 30 << 30, TemperatureMax: 61, PowerMean: 350, Throttled: 0.25,
		IdleSeconds: 60, Events: []string{"GPU 3 (GPU-x): XID 79, GPU has fallen off the bus: the machine needs a restart"},
	}
	busier := spec.GPUUse{Count: 2, Model: "NVIDIA A100", Utilization: 0.9, Memory: 40 << 30, MemoryPeak: 31 << 30, TemperatureMax: 70}
	out := spec.TrainOutput{Generations: []spec.Generation{
		{Index: 1, Nodes: 1, End: spec.EndNodeLost, StartedAt: began, EndedAt: began.Add(100 * time.Second), GPUs: a100},
		{Index: 2, Nodes: 1, End: spec.EndFinished, StartedAt: began, EndedAt: began.Add(300 * time.Second), GPUs: busier},
	}}
	story := newTrainStory(spec.KindTrain, out, nil)
	tiles := map[string]string{}
	for _, tile := range story.Tiles {
		tiles[tile.Name] = tile.Value
	}
	for name, want := range map[string]string{"GPUs busy": "80%", "peak GPU memory": "31 GiB of 40 GiB", "hottest GPU": "70 °C", "GPUs idle": "1m 00s"} {
		if tiles[name] != want {
			t.Errorf("%s: %q, want %q", name, tiles[name], want)
		}
	}
	want := "2 × NVIDIA A100, 50% busy, 350 W, slowed 25% of the time, GPU 3 (GPU-x): XID 79, GPU has fallen off the bus: the machine needs a restart"
	if diff := cmp.Diff(want, gpuWords(a100)); diff != "" {
		t.Error(diff)
	}
	var html bytes.Buffer
	if err := page.ExecuteTemplate(&html, "train", story); err != nil || !strings.Contains(html.String(), "<th>GPUs</th>") || !strings.Contains(html.String(), "XID 79") {
		t.Errorf("%v: the page does not tell of the GPUs:\n%s", err, html.String())
	}
	html.Reset()
	out.Generations[0].GPUs, out.Generations[1].GPUs = spec.GPUUse{}, spec.GPUUse{}
	if err := page.ExecuteTemplate(&html, "train", newTrainStory(spec.KindTrain, out, nil)); err != nil || strings.Contains(html.String(), "GPU") {
		t.Errorf("%v: a training without GPUs tells of some:\n%s", err, html.String())
	}
}
