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

// TestRolloutRefusesAnswers: a candidate whose answers agree with no label, or with those of the release that serves by accident only, gets no
// traffic.
func TestRolloutRefusesAnswers(t *testing.T) {
	t.Parallel()
	s := session(t)
	port := freePort(t)
	target := fmt.Sprintf("logits_%d", port)
	logits := func(traffic, shadow string) string {
		return ship(t, s, embeddedAs(target, port), target, onnxtest.Logit, `{"text": "spam", "spam": true}`, `{"x": [2.5], "spam": true}`,
			`{"text": "ham", "spam": false}`, `{"x": [-2.5], "spam": false}`, "label: spam", traffic, "{shadow: 100%, min_samples: 50}", shadow)
	}
	const threshold = "label: spam}\n      compare: {rule: threshold, threshold: 0"
	for _, tc := range []struct{ traffic, shadow, want string }{
		{"label: spam", "{shadow: 100%}", "rule: threshold, threshold: 0}"},
		{threshold, "{shadow: 100%, min_samples: 50}", ""},
		{"split: test", "{shadow: 100%, checks: [delta.agreement > 0.5]}", "a check reads delta.agreement"},
	} {
		out, record := wait(t, s, logits(tc.traffic, tc.shadow))
		if tc.want == "" {
			if out.Status != spec.StatusSucceeded {
				t.Errorf("%s: the run ended as %+v, step %+v", tc.traffic, out, record.Steps[1])
			}
			continue
		}
		if out.Status != spec.StatusFailed || out.ErrorType != fault.User || !strings.Contains(out.Error, tc.want) {
			t.Errorf("%s: the run ended as %+v, step %+v", tc.traffic, out, record.Steps[1])
		}
		if history := decodedHistory(t, s, contract.RolloutWorkflowID(target)); strings.Contains(history, contract.RolloutTrafficActivity) {
			t.Errorf("%s: the candidate got traffic", tc.traffic)
		}
	}
}
