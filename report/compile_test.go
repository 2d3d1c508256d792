package report

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/store/record"
)

// TestEngines: of an engine the page says what it was built on, and where its time goes.
func TestEngines(t *testing.T) {
	d := load(t, "promoted")
	at := slices.IndexFunc(d.Steps, func(s record.StepRecord) bool { return s.Kind == spec.KindCompile })
	var out spec.CompileOutput
	if err := json.Unmarshal(d.Steps[at].Outputs, &out); err != nil {
		t.Fatal(err)
	}
	v := out.Variants["int8"]
	v.TensorRT = &spec.EngineOutput{
		GPU: "NVIDIA L4", ComputeCapability: "8.9", Driver: "550.54.15", Version: "10.3.0", Inputs: []string{"ids"}, Layers: map[string]int{"FP32": 3, "INT8": 12},
		Slowest: []spec.EngineLayer{{Name: "conv1 + relu1", MeanMS: 0.21, Share: 0.4}},
	}
	out.Variants["int8"] = v
	var err error
	if d.Steps[at].Outputs, err = json.Marshal(out); err != nil {
		t.Fatal(err)
	}
	got := text(t, render(t, d))
	for _, want := range []string{
		"Engine int8 TensorRT 10.3.0 on NVIDIA L4 (compute capability 8.9, driver 550.54.15). It begins at ids, and was measured without what " +
			"comes before. Layers by what they put out: 12 INT8, 3 FP32.",
		"Engines ran on their GPU, everything else on one thread of the CPU.",
		"conv1 + relu1 0.21 ms 40",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("the page does not say %q", want)
		}
	}
}
