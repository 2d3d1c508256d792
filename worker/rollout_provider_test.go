package worker

import (
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/fault"
	"github.com/sluiceml/sluice/serving/onnx/onnxtest"
	"github.com/sluiceml/sluice/serving/routing"
)

// TestRolloutToAnotherProvider: an environment with an execution provider that this machine lacks fails the rollout at once, and neither the gateway
// nor what it serves changes. With the CPU behind it in a list, the release is served.
func TestRolloutToAnotherProvider(t *testing.T) {
	if _, err := os.Stat("/proc/driver/nvidia/version"); err == nil {
		t.Skip("this machine has the driver of a GPU")
	}
	t.Parallel()
	s := session(t)
	port := freePort(t)
	target := fmt.Sprintf("provided_%d", port)
	withProvider := func(provider string) string {
		return strings.Replace(embeddedAs(target, port), "}}}", ", provider: "+provider+"}}}", 1)
	}
	if out, record := wait(t, s, ship(t, s, embeddedAs(target, port), target, onnxtest.Text)); out.Status != spec.StatusSucceeded {
		t.Fatalf("the run on the CPU ended as %+v, step %+v", out, record.Steps[1])
	}
	before, err := routing.Current(t.Context(), s.Store, target)
	if err != nil {
		t.Fatal(err)
	}

	out, record := wait(t, s, ship(t, s, withProvider("tensorrt_rtx"), target, onnxtest.TextClose, "ungated: true", "ungated: true\n    retry: {attempts: 3}"))
	step := record.Steps[1]
	if out.Status != spec.StatusFailed || out.ErrorType != fault.Invalid || len(step.Attempts) != 1 {
		t.Errorf("the run ended as %+v after %d attempts, want invalid after one", out, len(step.Attempts))
	}
	for _, want := range []string{
		"target " + target + ": this ONNX Runtime cannot use the execution provider tensorrt_rtx: ", "onnxruntime-ep-nv-tensorrt-rtx-cu13", "`provider: [tensorrt_rtx, cpu]`",
	} {
		if !strings.Contains(step.Error, want) {
			t.Errorf("the step says %q, want %q in it", step.Error, want)
		}
	}
	after, err := routing.Current(t.Context(), s.Store, target)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(before, after); diff != "" {
		t.Errorf("the routing document changed (-before +after):\n%s", diff)
	}
	if got := status(t, fmt.Sprintf("http://127.0.0.1:%d/v2/models/%s/ready", port, target)); got != http.StatusOK {
		t.Errorf("the release that serves is answered for with %d", got)
	}

	run := ship(t, s, withProvider("[tensorrt_rtx, cpu]"), target, onnxtest.TextClose)
	if out, record := wait(t, s, run); out.Status != spec.StatusSucceeded {
		t.Fatalf("the run with the CPU behind it ended as %+v, step %+v", out, record.Steps[1])
	}
	doc, err := routing.Current(t.Context(), s.Store, target)
	if serving, ok := doc.Serving(); err != nil || !ok || serving.Run != run {
		t.Errorf("the target has %+v, %v", doc, err)
	}
}
