package worker

import (
	"fmt"
	"strings"
	"testing"

	"github.com/sluiceml/sluice/activities/contract"
	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/fault"
	"github.com/sluiceml/sluice/serving/onnx/onnxtest"
	"github.com/sluiceml/sluice/serving/routing"
)

// TestRolloutRefusesLabels: labels that are no class of the model, and rows that cannot be replayed, end a rollout before its candidate gets
// any traffic.
//
// promise: docs/pipelines.md#p-replay-probed
// promise: docs/pipelines.md#p-labels-refused
// promise: docs/rollouts.md#p-ro-incomparable
func TestRolloutRefusesLabels(t *testing.T) {
	t.Parallel()
	s := session(t)
	port := freePort(t)
	target := fmt.Sprintf("prices_%d", port)
	for _, tc := range []struct{ label, traffic, want string }{
		{"152", "label: spam", "labels are for classifiers"},
		{"152.5", "label: spam", "labels are for classifiers"},
		{"true", "label: spam}\n      compare: {output: nothing}\n      tests: {errors: {alpha: 0.01}", `no output "nothing"; it has [`},
		{"true", "split: tset", `the dataset has no split "tset"; it has:`},
	} {
		run := ship(t, s, embeddedAs(target, port), target, onnxtest.Text, `"spam": true`, `"spam": `+tc.label, "label: spam", tc.traffic)
		out, record := wait(t, s, run)
		if out.Status != spec.StatusFailed || out.ErrorType != fault.User || !strings.Contains(out.Error, tc.want) {
			t.Errorf("label %s: the run ended as %+v, step %+v", tc.label, out, record.Steps[1])
		}
		if history := decodedHistory(t, s, contract.RolloutWorkflowID(target)); strings.Contains(history, contract.RolloutTrafficActivity) {
			t.Errorf("label %s: the candidate got traffic", tc.label)
		}
		doc, err := routing.Current(t.Context(), s.Store, target)
		if err != nil || len(doc.Releases) != 0 {
			t.Errorf("label %s: the target has %+v, %v; want no release", tc.label, doc.Releases, err)
		}
	}
}
