package worker

import (
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sluiceml/sluice/control"
	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/artifact"
	"github.com/sluiceml/sluice/internal/fault"
	"github.com/sluiceml/sluice/serving/onnx/onnxtest"
	"github.com/sluiceml/sluice/serving/routing"
)

// TestRolloutKeepsTheFrontDoor: the keys and the port of a target are those of what serves, until a release of another environment is
// promoted. A rollout that fails leaves them, also for the next start.
func TestRolloutKeepsTheFrontDoor(t *testing.T) {
	t.Parallel()
	s := session(t)
	before, after := freePort(t), freePort(t)
	target := fmt.Sprintf("kept_%d", before)
	key := filepath.Join(t.TempDir(), "web")
	if err := os.WriteFile(key, []byte("the-key-of-the-web-shop\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	guarded := fmt.Sprintf("sluice: environment/v1\nname: test\nsecrets: {web: {file: %s}}\ntargets: {%s: {embedded: {port: %d}, gateway: {keys: [{secret: web, allow: infer}]}}}\n",
		key, target, before)
	// asked is how the model's metadata are answered to somebody without a key.
	asked := func(port int) int { return status(t, fmt.Sprintf("http://127.0.0.1:%d/v2/models/%s", port, target)) }
	if out, record := wait(t, s, ship(t, s, guarded, target, onnxtest.Text)); out.Status != spec.StatusSucceeded {
		t.Fatalf("the first release ended as %+v, step %+v", out, record.Steps[1])
	}
	if got := asked(before); got != http.StatusUnauthorized {
		t.Fatalf("without a key: %d", got)
	}

	same := fmt.Sprintf("sluice: environment/v1\nname: test\ntargets: {%s: {embedded: {port: %d}}}\n", target, before)
	for _, stale := range []string{same, embeddedAs(target, after)} {
		pipeline := project(t, strings.NewReplacer("TARGET", target, "SAMPLES", "50").Replace(shipping), map[string]string{"environment.yaml": stale, "bad.onnx": "garbage"})
		run := submit(t, s, control.SubmitRequest{
			PipelineFile: pipeline, EnvFile: filepath.Join(filepath.Dir(pipeline), "environment.yaml"), Params: map[string]string{"model": "bad"},
		}).Run
		if out, _ := wait(t, s, run); out.Status != spec.StatusFailed {
			t.Fatalf("the release of garbage ended as %+v", out)
		}
		if got := [2]int{asked(before), asked(after)}; got != [2]int{http.StatusUnauthorized, 0} {
			t.Errorf("after a rollout that failed the ports answer %v without a key", got)
		}
		var saved map[string]spec.ServedTarget
		if raw, err := os.ReadFile(filepath.Join(s.Dir, "targets.json")); err != nil {
			t.Error(err)
		} else if err := json.Unmarshal(raw, &saved); err != nil || saved[target].Embedded.Port != before || len(saved[target].Gateway.Keys) != 1 {
			t.Errorf("the next start would serve %s, %v", raw, err)
		}
	}

	var asking sync.WaitGroup
	ended := make(chan struct{})
	stop := sync.OnceFunc(func() { close(ended); asking.Wait() })
	defer stop()
	asking.Go(func() { // what the clients of before see
		for {
			got := asked(before)
			doc, err := routing.Current(t.Context(), s.Store, target)
			if serving, _ := doc.Serving(); err == nil && got != http.StatusUnauthorized && (doc.Candidate != "" || serving.Version == "1") {
				t.Errorf("while the document is %+v: %d", doc, got)
			}
			select {
			case <-ended:
				return
			case <-time.After(20 * time.Millisecond):
			}
		}
	})
	run := ship(t, s, embeddedAs(target, after), target, onnxtest.Text)
	out, record := wait(t, s, run)
	stop()
	if out.Status != spec.StatusSucceeded {
		t.Fatalf("the release ended as %+v, step %+v", out, record.Steps[1])
	}
	if got := [2]int{asked(before), asked(after)}; got != [2]int{0, http.StatusOK} {
		t.Errorf("after the promotion the ports answer %v without a key", got)
	}
	var shipped spec.RolloutOutput
	if err := json.Unmarshal(record.Steps[1].Outputs, &shipped); err != nil || !strings.HasSuffix(shipped.URL, fmt.Sprintf(":%d", after)) {
		t.Errorf("the step says that the target is at %q, %v", shipped.URL, err)
	}
	doc, err := routing.Current(t.Context(), s.Store, target)
	if err != nil || doc.Front == nil || doc.Front.Port != after || len(doc.Front.Gateway.Keys) != 0 {
		t.Errorf("the document is %+v, %v", doc, err)
	}
}

// TestRolloutBesideATakenPort: whoever has the port of a target meanwhile, a rollout of another environment opens none of its own before it is
// promoted. It fails at once.
func TestRolloutBesideATakenPort(t *testing.T) {
	t.Parallel()
	dir, before, after := t.TempDir(), freePort(t), freePort(t)
	target := fmt.Sprintf("taken_%d", before)
	first := open(t, control.Options{StateDir: dir}, Options{})
	if out, record := wait(t, first.Session, launch(t, first.Session, embeddedAs(target, before), target, onnxtest.Text)); out.Status != spec.StatusSucceeded {
		t.Fatalf("the first release ended as %+v, step %+v", out, record.Steps[1])
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	other, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", before))
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	second := open(t, control.Options{StateDir: dir}, Options{})
	run := launch(t, second.Session, embeddedAs(target, after), target, onnxtest.Text)
	out, record := wait(t, second.Session, run)
	if out.Status != spec.StatusFailed || out.ErrorType != fault.Invalid || !strings.Contains(record.Steps[1].Error, fmt.Sprintf("keeps its port %d", before)) {
		t.Errorf("the rollout ended as %+v: %s", out, record.Steps[1].Error)
	}
	if at := second.Targets()[target]; at != (Address{}) || status(t, fmt.Sprintf("http://127.0.0.1:%d/v2/health/live", after)) != 0 {
		t.Errorf("the target is at %v", at)
	}
}

// TestServedEnvironmentStays: what `sluice serve -e` says of a target holds in its state folder until another front is promoted.
func TestServedEnvironmentStays(t *testing.T) {
	t.Parallel()
	s, dir, port, moved := openStore(t), t.TempDir(), freePort(t), freePort(t)
	key := filepath.Join(t.TempDir(), "web")
	if err := os.WriteFile(key, []byte("the-key-of-the-web-shop\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	guarded := embeddedAt(port)
	guarded.Gateway.Keys = []spec.GatewayKey{{Secret: "web", Allow: []string{"infer"}}}
	guarded.Secrets = map[string]spec.SecretSource{"web": {File: key}}
	asked := func(port int) int { return status(t, fmt.Sprintf("http://127.0.0.1:%d/v2/models/spam", port)) }
	promote := func(revision int64, front spec.Front) {
		t.Helper()
		doc := routing.Document{Target: "spam", Versions: 1, Front: &front, Releases: []routing.Release{{
			Version: "1", Model: artifact.Ref{Type: artifact.Model, Digest: "sha256:none"}, Weight: 1,
		}}}
		if _, err := routing.Set(t.Context(), s, revision, doc); err != nil {
			t.Fatal(err)
		}
	}
	// has is whether a process has taken note of the front that the document has.
	has := func(port int) bool {
		var saved map[string]savedTarget
		raw, err := os.ReadFile(filepath.Join(dir, "targets.json"))
		return err == nil && json.Unmarshal(raw, &saved) == nil && saved["spam"].Followed != nil && saved["spam"].Followed.Port == port
	}
	during := func(g *Gateways, do func()) {
		t.Helper()
		do()
		if err := g.Close(); err != nil {
			t.Error(err)
		}
	}
	log := slog.New(slog.DiscardHandler)

	promote(0, embeddedAt(port).Front())
	up := NewGateways(s, dir, log)
	during(up, func() {
		if _, err := up.Serve(t.Context(), "spam", embeddedAt(port)); err != nil {
			t.Fatal(err)
		}
		await(t, "the front of the document is known", func() bool { return has(port) })
	})
	serve := NewGatewaysAlone(s, dir, log, io.Discard)
	during(serve, func() {
		if _, err := serve.Serve(t.Context(), "spam", guarded); err != nil {
			t.Fatal(err)
		}
		if got := asked(port); got != http.StatusUnauthorized {
			t.Errorf("sluice serve -e: %d", got)
		}
	})
	again := NewGateways(s, dir, log)
	during(again, func() {
		if err := again.Restore(t.Context()); err != nil {
			t.Fatal(err)
		}
		await(t, "the document is read", func() bool {
			again.mu.Lock() // which is held until all that it means is done
			defer again.mu.Unlock()
			return again.fronts["spam"] == 1
		})
		if got := asked(port); got != http.StatusUnauthorized {
			t.Errorf("after a restart: %d", got)
		}
		promote(1, embeddedAt(moved).Front())
		await(t, "what is promoted", func() bool { return has(moved) && asked(port) == 0 && asked(moved) != http.StatusUnauthorized })
	})
}
