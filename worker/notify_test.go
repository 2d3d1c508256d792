package worker

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sluiceml/sluice/control"
	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/notify"
)

// TestNotificationsHoldNothingUp: a receiver that answers only after the run has ended gets its messages all the same, and one that
// never does fails no run. The address, a secret, is nowhere.
func TestNotificationsHoldNothingUp(t *testing.T) {
	s := openWith(t, "")
	ended, heard := make(chan struct{}), make(chan notify.Message, 10)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		<-ended
		var m notify.Message
		if err := json.NewDecoder(r.Body).Decode(&m); err != nil || r.URL.Path != "/hooks/hidden-9471-vow" {
			t.Errorf("%s: %v", r.URL.Path, err)
		}
		heard <- m
		w.WriteHeader(http.StatusNoContent)
	}))
	defer server.Close()
	t.Setenv("HOOK", server.URL+"/hooks/hidden-9471-vow")
	pipeline := project(t, fmt.Sprintf(`name: told
steps: {a: {run: {script: exit 3}}}
notify:
  slow: {webhook: {url_secret: hook}, on: [start, fail, success]}
  dead: {webhook: {url: %q}, on: [fail]}
`, "http://127.0.0.1:1/"), map[string]string{
		"environment.yaml": "sluice: environment/v1\nname: test\nsecrets: {hook: {env: HOOK}}\n",
	})
	run := submit(t, s, control.SubmitRequest{PipelineFile: pipeline, EnvFile: filepath.Join(filepath.Dir(pipeline), "environment.yaml")}).Run
	if out, _ := wait(t, s, run); out.Status != spec.StatusFailed {
		t.Fatalf("the run ended as %+v", out)
	}
	close(ended)
	var got []string
	for range 2 {
		select {
		case m := <-heard:
			got = append(got, m.Event+" of "+m.Pipeline)
			if m.Run != run || m.Environment != "test" || m.ID == "" || (m.Event == "fail") != (m.Text != "") {
				t.Errorf("message %+v", m)
			}
		case <-time.After(testLimit):
			t.Fatalf("only %v came", got)
		}
	}
	slices.Sort(got)
	if diff := cmp.Diff([]string{"fail of told", "start of told"}, got); diff != "" {
		t.Errorf("messages (-want +got):\n%s", diff)
	}
	if inFiles(t, s.Dir, "", "hidden-9471-vow") {
		t.Error("the state folder holds the secret address")
	}
}

// TestDeliver: who ends a process with its run waits until the run's end was told.
func TestDeliver(t *testing.T) {
	s := session(t)
	delivering, heard := make(chan struct{}), make(chan string, 10)
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		<-delivering
		var m notify.Message
		if err := json.NewDecoder(r.Body).Decode(&m); err != nil {
			t.Error(err)
		}
		heard <- m.Event
	}))
	defer server.Close()
	run := submit(t, s, control.SubmitRequest{PipelineFile: project(t, fmt.Sprintf(`name: delivered
steps: {a: {run: {command: ["true"]}}}
notify: {ops: {webhook: {url: %q}, on: [success]}}
`, server.URL), nil)}).Run
	wait(t, s, run)
	close(delivering)
	s.Deliver(t.Context(), run)
	select {
	case event := <-heard:
		if event != "success" {
			t.Errorf("heard of %s", event)
		}
	default:
		t.Error("nobody has heard of the end")
	}
}
