package dsl

import (
	"strings"
	"testing"

	"github.com/sluiceml/sluice/dsl/document"
	"github.com/sluiceml/sluice/dsl/spec"
)

// TestStagesOfParams: stages may have values that are known only when the step begins. What is wrong with them fails the step.
func TestStagesOfParams(t *testing.T) {
	const source = `sluice: pipeline/v1
name: p
params: {first: {type: double}, bake: {type: duration, default: 1m}, last: {type: double, default: 1}}
steps:
  make: {run: {script: "true", outputs: {model: {type: model, path: m}}}}
  ship:
    rollout:
      target: local
      model: "${steps.make.model}"
      ungated: true
      stages: [{weight: "${params.first}", bake: "${params.bake}"}, {weight: 50%}, {weight: "${params.last}"}]
`
	for _, tt := range []struct {
		params map[string]string
		want   string // in the error; empty for none
	}{
		{map[string]string{"first": "0.1"}, ""},
		{map[string]string{"first": "0.5"}, "stages[1]: the weight 50% is not greater than the 50% before it"},
		{map[string]string{"first": "0"}, "stages[0]: a stage has exactly one of `shadow` and `weight`, above 0%"},
		{map[string]string{"first": "10"}, "stages[0]: 1000% is more than 100%"},
		{map[string]string{"first": "0.1", "bake": "1h"}, "stages[0]: `bake: 1h` is longer than `max_wait: 15m`"},
		{map[string]string{"first": "0.1", "last": "0.9"}, "the last stage must have the weight 100%"},
	} {
		p, diags := Compile(document.File{Name: "p.yaml", Source: []byte(source)}, document.File{}, exampleFiles{})
		if diags.HasErrors() {
			t.Fatal(diags.Text(false))
		}
		params, diags := p.Params(tt.params)
		if diags.HasErrors() {
			t.Fatal(diags.Text(false))
		}
		made := map[string]spec.StepResult{"make": {Status: spec.StatusSucceeded, Outputs: []byte(`{"model":{"type":"model","digest":"sha256:ab"}}`)}}
		_, err := p.Resolve("ship", spec.Vars{Params: params, Steps: made})
		if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
			t.Errorf("%v: got %v, want %q", tt.params, err, tt.want)
		}
	}
}
