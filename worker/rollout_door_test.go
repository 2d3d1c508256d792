package worker

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/serving/door/doortest"
	"github.com/sluiceml/sluice/serving/onnx/onnxtest"
	"github.com/sluiceml/sluice/serving/routing"
)

// TestRolloutAtAFrontDoor: whoever a target lets in, a rollout's own questions, rows and labels pass, over TLS and by its key.
func TestRolloutAtAFrontDoor(t *testing.T) {
	t.Parallel()
	s := session(t)
	port := freePort(t)
	target := fmt.Sprintf("guarded_%d", port)
	key := filepath.Join(t.TempDir(), "web")
	if err := os.WriteFile(key, []byte("the-key-of-the-web-shop\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	files := doortest.NewCA(t).Files(t, "shop.test")
	environment := fmt.Sprintf(`sluice: environment/v1
name: test
secrets: {web: {file: %s}}
targets:
  %s:
    embedded: {port: %d}
    gateway: {tls: {certificate: %s, key: %s}, keys: [{secret: web, allow: infer}]}
`, key, target, port, files.Certificate, files.Key)
	run := ship(t, s, environment, target, onnxtest.Text, "label: spam}", "label: spam}\n      compare: {rule: top1}")
	if out, record := wait(t, s, run); out.Status != spec.StatusSucceeded {
		t.Fatalf("the run ended as %+v, step %+v", out, record.Steps[1])
	}
	doc, err := routing.Current(t.Context(), s.Store, target)
	if serving, ok := doc.Serving(); err != nil || !ok || serving.Run != run {
		t.Errorf("the target has %+v, %v", doc, err)
	}
}
