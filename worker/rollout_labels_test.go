package worker

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluiceml/sluice/control"
	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/fault"
	"github.com/sluiceml/sluice/serving/onnx/onnxtest"
	"github.com/sluiceml/sluice/serving/routing"
)

// TestRolloutRefusesLabels: labels that are no class of the model end a rollout before its candidate gets any traffic.
//
// promise: docs/pipelines.md#p-labels-refused
func TestRolloutRefusesLabels(t *testing.T) {
	t.Parallel()
	s := session(t)
	port := freePort(t)
	target := fmt.Sprintf("prices_%d", port)
	raw, err := os.ReadFile(filepath.Join(onnxtest.Folder(t, onnxtest.Text), "model.onnx"))
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct{ label, want string }{
		{"152", "labels are for classifiers"},
		{"152.5", "must be a boolean, an integer or a string"},
	} {
		pipeline := project(t, strings.NewReplacer("TARGET", target, "SAMPLES", "50", `"spam": true`, `"spam": `+tc.label).Replace(release), map[string]string{
			"environment.yaml":      fmt.Sprintf("sluice: environment/v1\nname: test\ntargets: {%s: {embedded: {port: %d}}}\n", target, port),
			onnxtest.Text + ".onnx": string(raw),
		})
		run := submit(t, s, control.SubmitRequest{
			PipelineFile: pipeline, EnvFile: filepath.Join(filepath.Dir(pipeline), "environment.yaml"), Params: map[string]string{"model": onnxtest.Text},
		}).Run
		t.Cleanup(func() { end(t, s, run) })
		out, record := wait(t, s, run)
		if out.Status != spec.StatusFailed || out.ErrorType != fault.User || !strings.Contains(out.Error, tc.want) {
			t.Errorf("label %s: the run ended as %+v, step %+v", tc.label, out, record.Steps[1])
		}
		doc, err := routing.Current(t.Context(), s.Store, target)
		if err != nil || len(doc.Releases) != 0 {
			t.Errorf("label %s: the target has %+v, %v; want no release", tc.label, doc.Releases, err)
		}
	}
}
