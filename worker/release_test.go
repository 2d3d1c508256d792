package worker

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluiceml/sluice/control"
	"github.com/sluiceml/sluice/serving/onnx/onnxtest"
)

// shipping releases the model of the parameter, on a hundred rows that say spam.
const shipping = `name: release
params:
  model: {type: string}
steps:
  make:
    run:
      script: |
        mkdir -p "$SLUICE_OUTPUT_DIR/rows/test"
        for i in $(seq 50); do
          echo '{"text": "spam", "spam": true}'; echo '{"text": "ham", "spam": false}'
        done > "$SLUICE_OUTPUT_DIR/rows/test/0.jsonl"
        cp "$MODEL.onnx" "$SLUICE_OUTPUT_DIR/model.onnx"
      outputs: {rows: {type: dataset, path: rows}, model: {type: model, path: model.onnx}}
    env: {MODEL: "${params.model}"}
  ship:
    rollout:
      target: TARGET
      model: "${steps.make.model}"
      traffic: {replay: "${steps.make.rows}", rps: 200, label: spam}
      stages: [{shadow: 100%, min_samples: 50}, {weight: 30%, min_samples: SAMPLES}, {weight: 100%, min_samples: 50}]
      ungated: true
`

// embeddedAs is an environment with a target in this process.
func embeddedAs(target string, port int) string {
	return fmt.Sprintf("sluice: environment/v1\nname: test\ntargets: {%s: {embedded: {port: %d}}}\n", target, port)
}

// ship submits the release of a test model to a target, with other texts in the pipeline, each after the one that it replaces. What of it is
// left at the test's end is ended.
func ship(t *testing.T, s *control.Session, environment, target, model string, other ...string) (run string) {
	t.Helper()
	run = launch(t, s, environment, target, model, other...)
	t.Cleanup(func() { end(t, s, run) })
	return run
}

// launch is ship in a session that ends with the test, or before.
func launch(t *testing.T, s *control.Session, environment, target, model string, other ...string) (run string) {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(onnxtest.Folder(t, model), "model.onnx"))
	if err != nil {
		t.Fatal(err)
	}
	text := strings.NewReplacer(append(other, "TARGET", target, "SAMPLES", "50")...).Replace(shipping)
	pipeline := project(t, text, map[string]string{"environment.yaml": environment, model + ".onnx": string(raw)})
	return submit(t, s, control.SubmitRequest{
		PipelineFile: pipeline, EnvFile: filepath.Join(filepath.Dir(pipeline), "environment.yaml"), Params: map[string]string{"model": model},
	}).Run
}
