package activities

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.temporal.io/sdk/temporal"

	"github.com/sluiceml/sluice/activities/contract"
	"github.com/sluiceml/sluice/activities/engine"
	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/fault"
	"github.com/sluiceml/sluice/internal/fault/boundary"
	"github.com/sluiceml/sluice/internal/notify"
	"github.com/sluiceml/sluice/internal/secret"
	"github.com/sluiceml/sluice/store"
	"github.com/sluiceml/sluice/store/record"
)

// submitNotified stores a pipeline with notifications and an environment with secrets, and returns the submission's digest.
func submitNotified(t *testing.T, pipeline, environment string) (*Notifier, string) {
	t.Helper()
	s, err := store.Open(t.Context(), "file://"+t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	raw, err := json.Marshal(record.Submission{
		File: "p.yaml", EnvFile: "e.yaml", Environment: []byte("sluice: environment/v1\nname: prod\n" + environment),
		Pipeline: []byte("sluice: pipeline/v1\nname: p\nsteps: {a: {run: {command: [a]}}}\nnotify:\n" + pipeline),
	})
	if err != nil {
		t.Fatal(err)
	}
	digest, _, err := s.PutBlob(t.Context(), bytes.NewReader(raw))
	if err != nil {
		t.Fatal(err)
	}
	return &Notifier{Engine: engine.NewEngine(s), Secrets: secret.NewResolver()}, digest
}

func TestNotifier(t *testing.T) {
	var request *http.Request
	var body []byte
	var status int
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		request = r
		var err error
		if body, err = io.ReadAll(r.Body); err != nil {
			t.Error(err)
		}
		w.Header().Set("Retry-After", "90")
		w.WriteHeader(status)
		if status == http.StatusNotFound {
			fmt.Fprintf(w, "I do not know http://%s%s", r.Host, r.URL.Path)
		} else {
			fmt.Fprintf(w, "Cannot POST %s", r.URL.Path) // as Express does
		}
	}))
	defer server.Close()
	t.Setenv("HOOK_URL", server.URL+"/hooks/T0/B0/hidden")
	key := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(key, []byte("the key\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	n, submission := submitNotified(t, `
  board: {webhook: {url_secret: hook, signing_secret: key}, on: [start, fail]}
  chat: {slack: {url_secret: hook}}
  later: {slack: {url_secret: absent}, on: [success]}
  team: {email: {to: a@b.test}, on: [success, fail]}
`, "secrets: {hook: {env: HOOK_URL}, key: {file: "+key+"}, absent: {env: NOT_SET_AT_ALL}}\nsmtp: {host: 127.0.0.1, port: 1, from: s@b.test}\n")
	in := contract.NotifyInput{
		Run: "p-1", Pipeline: "p", Submission: submission, Event: spec.EventFail, Text: "why", At: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC),
	}
	for event, want := range map[string][]string{
		"start": {"board"}, "hold": {"chat"}, "fail": {"board", "chat", "team"}, "success": {"later", "team"}, "rollback": {"chat"},
	} {
		asked := in
		asked.Event = event
		got, err := n.Audience(t.Context(), asked)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", event, diff)
		}
	}

	send := func(to string, answer int) error {
		status = answer
		return n.Send(t.Context(), contract.SendInput{NotifyInput: in, To: to, ID: "id/" + to})
	}
	if err := send("board", 200); err != nil {
		t.Fatal(err)
	}
	var got notify.Message
	if err := json.Unmarshal(body, &got); err != nil {
		t.Fatal(err)
	}
	want := notify.Message{
		Version: 1, ID: "id/board", Event: "fail", Pipeline: "p", Run: "p-1", Environment: "prod", Title: "p has failed", Text: "why", Time: in.At,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("message (-want +got):\n%s", diff)
	}
	var at int64
	header := request.Header.Get(notify.SignatureHeader)
	if _, err := fmt.Sscanf(header, "t=%d,", &at); err != nil || header != notify.Sign("the key", time.Unix(at, 0), body) {
		t.Errorf("signature %q (%v)", header, err)
	}
	if err := send("chat", 204); err != nil || !strings.Contains(string(body), `"text":"*p has failed*`) {
		t.Errorf("chat: %v: %s", err, body)
	}

	for _, tt := range []struct {
		to     string
		answer int
		typ    string
		again  bool
		after  time.Duration
		says   string
	}{
		{"board", 404, fault.Invalid, false, 0, "404 Not Found: I do not know ***"},
		{"chat", 503, fault.Infrastructure, true, 90 * time.Second, "503 Service Unavailable: Cannot POST ***"},
		{"later", 200, fault.Invalid, false, 0, "NOT_SET_AT_ALL is not set"},
		{"team", 200, fault.Infrastructure, true, 0, "mail server 127.0.0.1:1"},
		{"nobody", 200, fault.Invalid, false, 0, "no longer has this notification"},
	} {
		err := boundary.Failure(send(tt.to, tt.answer))
		var app *temporal.ApplicationError
		if !errors.As(err, &app) {
			t.Errorf("%s: %v", tt.to, err)
			continue
		}
		if app.Type() != tt.typ || app.NonRetryable() == tt.again || app.NextRetryDelay() != tt.after ||
			!strings.Contains(err.Error(), tt.says) || strings.Contains(err.Error(), "hidden") {
			t.Errorf("%s: %v (retryable %v, after %v)", tt.to, err, !app.NonRetryable(), app.NextRetryDelay())
		}
	}
}
