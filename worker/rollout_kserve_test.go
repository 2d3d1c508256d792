package worker

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/testing/kubetest"
	"github.com/sluiceml/sluice/internal/testing/rig"
	"github.com/sluiceml/sluice/internal/testing/s3test"
	"github.com/sluiceml/sluice/serving/kserve/kservetest"
	"github.com/sluiceml/sluice/serving/onnx/onnxtest"
)

// TestRolloutOnKServe: on a cluster a good candidate is promoted and a bad one rolled back, as they are in this process, and what lost is
// removed from the cluster. The API server is real, KServe's controller is played, the models run.
func TestRolloutOnKServe(t *testing.T) {
	if _, err := kubetest.Program(); err != nil {
		rig.Skip(t, err)
	}
	const user = "sluice"
	c, err := kubetest.Start(t.Context(), user)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Stop)
	if err := kservetest.Install(t.Context(), c.Config); err != nil {
		t.Fatal(err)
	}
	namespace := c.Namespace(t)
	c.Allow(t, user, namespace, []rbacv1.PolicyRule{
		{APIGroups: []string{"serving.kserve.io"}, Resources: []string{"inferenceservices"}, Verbs: []string{"create", "get", "list", "delete"}},
	})
	config, err := c.Kubeconfig(user, namespace)
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("KUBECONFIG", config)
	bucket := s3test.Start(t, "models", s3test.Options{})
	played := kservetest.Play(t, c.Config, namespace, "?endpoint="+bucket.URL)

	s := session(t)
	const target = "clustered"
	environment := fmt.Sprintf(`sluice: environment/v1
name: test
targets: {%s: {kserve: {context: kubetest, port: %d, models: %q}}}
`, target, freePort(t), bucket.At("releases"))
	for _, tt := range []struct {
		model, decision string
		status          spec.Status
		running         []string
	}{
		{onnxtest.Text, "promoted", spec.StatusSucceeded, []string{"clustered-v1"}},
		{onnxtest.TextClose, "promoted", spec.StatusSucceeded, []string{"clustered-v1", "clustered-v2"}}, // the way back stays open
		{onnxtest.TextWrong, "rolled_back", spec.StatusFailed, []string{"clustered-v2"}},
	} {
		out, record := wait(t, s, ship(t, s, environment, target, tt.model))
		var got spec.RolloutOutput
		if err := json.Unmarshal(record.Steps[1].Outputs, &got); err != nil {
			t.Fatalf("%s: %s: outputs %s: %v", tt.model, record.Steps[1].Error, record.Steps[1].Outputs, err)
		}
		if out.Status != tt.status || got.Decision != tt.decision {
			t.Errorf("%s: the run is %s, the candidate %s: %s", tt.model, out.Status, got.Decision, got.Reason)
		}
		await(t, fmt.Sprintf("%v to run after %s", tt.running, tt.model), func() bool {
			return slices.Equal(slices.Sorted(slices.Values(played.Running())), tt.running)
		})
	}
}
