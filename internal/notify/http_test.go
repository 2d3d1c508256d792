package notify

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func message() Message {
	return New(Message{
		ID: "notify-1/ops", Event: "fail", Pipeline: "spam", Run: "spam-1", Environment: "prod",
		Text: "score: gate `f1 > 0.9` <failed> & more\nétage", Time: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC),
	})
}

// receiver keeps what it is sent and answers with status.
type receiver struct {
	*httptest.Server
	status int
	answer string
	header http.Header // of its answers
	got    []*http.Request
	bodies []string
}

func newReceiver(t *testing.T, status int) *receiver {
	t.Helper()
	r := &receiver{status: status, header: http.Header{}}
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		body, err := io.ReadAll(req.Body)
		if err != nil {
			t.Error(err)
		}
		r.got, r.bodies = append(r.got, req), append(r.bodies, string(body))
		for name, values := range r.header {
			w.Header()[name] = values
		}
		w.WriteHeader(r.status)
		_, _ = io.WriteString(w, r.answer) // whoever has read enough hangs up
	}))
	t.Cleanup(r.Close)
	return r
}

func TestWebhook(t *testing.T) {
	r := newReceiver(t, http.StatusAccepted)
	if err := Webhook(t.Context(), r.URL+"/hook?x=1", "signing key", message()); err != nil {
		t.Fatal(err)
	}
	req := r.got[0]
	if req.Method != http.MethodPost || req.URL.String() != "/hook?x=1" || req.Header.Get("Content-Type") != "application/json" {
		t.Errorf("got %s %s %v", req.Method, req.URL, req.Header)
	}
	var got map[string]any
	if err := json.Unmarshal([]byte(r.bodies[0]), &got); err != nil {
		t.Fatal(err)
	}
	want := map[string]any{
		"version": 1.0, "id": "notify-1/ops", "event": "fail", "pipeline": "spam", "run": "spam-1", "environment": "prod",
		"title": "spam has failed", "text": "score: gate `f1 > 0.9` <failed> & more\nétage", "time": "2026-01-02T03:04:05Z",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("body (-want +got):\n%s", diff)
	}
	// As docs/notify.md says.
	at, signature, found := strings.Cut(strings.TrimPrefix(req.Header.Get(SignatureHeader), "t="), ",v1=")
	mac := hmac.New(sha256.New, []byte("signing key"))
	mac.Write([]byte(at + "." + r.bodies[0]))
	if want := hex.EncodeToString(mac.Sum(nil)); !found || signature != want {
		t.Errorf("signature %q of %q, want %q", signature, at, want)
	}
	if err := Webhook(t.Context(), r.URL, "", message()); err != nil {
		t.Fatal(err)
	}
	if s := r.got[1].Header.Get(SignatureHeader); s != "" {
		t.Errorf("without a key it is signed: %q", s)
	}
}

// TestDocumentedVerification runs the code by which docs/notify.md tells receivers to verify a signature.
func TestDocumentedVerification(t *testing.T) {
	raw, err := os.ReadFile("../../docs/notify.md")
	if err != nil {
		t.Fatal(err)
	}
	_, code, found := strings.Cut(string(raw), "```python\n")
	code, _, ended := strings.Cut(code, "```")
	if !found || !ended {
		t.Fatal("docs/notify.md has no Python")
	}
	const body = `{"version":1,"text":"étage"}`
	verify := func(key string, at time.Time, body string) string {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		cmd := exec.CommandContext(ctx, "python3", "-c", code+"\nimport sys\nprint(verify(b'the key', sys.argv[1], sys.stdin.buffer.read()))")
		cmd.Args = append(cmd.Args, Sign(key, at, []byte(`{"version":1,"text":"étage"}`)))
		cmd.Stdin = strings.NewReader(body)
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		return strings.TrimSpace(string(out))
	}
	for _, tt := range []struct {
		name, key string
		at        time.Time
		body      string
		want      string
	}{
		{"genuine", "the key", time.Now(), body, "True"},
		{"another key", "no key", time.Now(), body, "False"},
		{"another body", "the key", time.Now(), body + " ", "False"},
		{"sent again later", "the key", time.Now().Add(-time.Hour), body, "False"},
	} {
		if got := verify(tt.key, tt.at, tt.body); got != tt.want {
			t.Errorf("%s: %s", tt.name, got)
		}
	}
}

func TestSlack(t *testing.T) {
	r := newReceiver(t, http.StatusOK)
	if err := Slack(t.Context(), r.URL, message()); err != nil {
		t.Fatal(err)
	}
	var got map[string]string
	if err := json.Unmarshal([]byte(r.bodies[0]), &got); err != nil {
		t.Fatal(err)
	}
	want := map[string]string{
		"text": "*spam has failed*\nrun `spam-1`, environment `prod`\n```score: gate `f1 &gt; 0.9` &lt;failed&gt; &amp; more\nétage```",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("body (-want +got):\n%s", diff)
	}
}

func TestAnswers(t *testing.T) {
	tests := []struct {
		status    int
		header    http.Header
		permanent bool
		after     time.Duration
		says      string
	}{
		{status: 400, permanent: true, says: "400 Bad Request: no such hook"},
		{status: 404, permanent: true, says: "404"},
		{status: 410, permanent: true, says: "410"},
		{status: 408, says: "408"},
		{status: 429, header: http.Header{"Retry-After": {"7"}}, after: 7 * time.Second, says: "429"},
		{status: 503, header: http.Header{"Retry-After": {"100000"}}, after: 10 * time.Minute, says: "503"},
		{status: 503, header: http.Header{"Retry-After": {"99999999999999999999"}}, after: 10 * time.Minute, says: "503"},
		{status: 503, header: http.Header{"Retry-After": {"-5"}}, says: "503"},
		{status: 500, says: "500"},
		{status: 307, header: http.Header{"Location": {"http://127.0.0.1:1/elsewhere"}}, permanent: true, says: "redirects are not followed"},
	}
	for _, tt := range tests {
		r := newReceiver(t, tt.status)
		r.header, r.answer = tt.header, "no such hook"
		err := Webhook(t.Context(), r.URL, "", message())
		if err == nil || Permanent(err) != tt.permanent || After(err) != tt.after || !strings.Contains(err.Error(), tt.says) {
			t.Errorf("%d: %v (permanent %v, after %v)", tt.status, err, Permanent(err), After(err))
		}
		if len(r.got) != 1 {
			t.Errorf("%d: %d requests", tt.status, len(r.got))
		}
	}
}

// TestRetryAfter: no pause is shorter than nothing or longer than is promised, whatever another side asks for.
func TestRetryAfter(t *testing.T) {
	for given, want := range map[string]time.Duration{
		"": 0, "0": 0, " 7 ": 7 * time.Second, "600": maxAfter, "601": maxAfter, "-1": 0, "-99999999999999999999": 0,
		"9223372036": maxAfter, "9223372037": maxAfter, "9223372036854775807": maxAfter, "99999999999999999999": maxAfter, "soon": maxAfter,
		"Wed, 21 Oct 2015 07:28:00 GMT": 0, "Wed, 21 Oct 2320 07:28:00 GMT": maxAfter,
	} {
		if got := retryAfter(given); got != want {
			t.Errorf("%q: %v, want %v", given, got, want)
		}
	}
	if got := retryAfter(time.Now().Add(time.Minute).UTC().Format(http.TimeFormat)); got < 50*time.Second || got > time.Minute {
		t.Errorf("in a minute: %v", got)
	}
}

// TestAnswerHidesAddress: pages of errors repeat the address, or what of it the receiver sees, and so may a broken server.
func TestAnswerHidesAddress(t *testing.T) {
	const path = "/hooks/T0SECRET1/B0SECRET2?token=hunter2hunter2"
	for _, answer := range []string{
		"Cannot POST /hooks/T0SECRET1/B0SECRET2", "no B0SECRET2", "no token hunter2hunter2", strings.Repeat("x", 190) + " T0SECRET1/B0SECRET2",
		"signed with signing key",
	} {
		r := newReceiver(t, http.StatusNotFound)
		r.answer = answer
		err := Webhook(t.Context(), r.URL+path, "signing key", message())
		if err == nil || !strings.Contains(err.Error(), "404 Not Found: ") {
			t.Errorf("%q: %v", answer, err)
		}
		for _, part := range []string{"SECRET", "hunter2", "T0S", "signing"} {
			if err != nil && strings.Contains(err.Error(), part) {
				t.Errorf("%q: %v", answer, err)
			}
		}
	}

	var listen net.ListenConfig
	l, err := listen.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = conn.Read(make([]byte, 4096))
			_, _ = io.WriteString(conn, "HTTP/1.1 /hooks/T0SECRET1/B0SECRET2\r\n\r\n")
			_ = conn.Close()
		}
	}()
	err = Slack(t.Context(), "http://"+l.Addr().String()+path, message())
	if err == nil || !strings.Contains(err.Error(), "does not respond") || strings.Contains(err.Error(), "SECRET") {
		t.Errorf("a broken answer: %v", err)
	}
}

// TestAnswerIsBounded: an endless answer takes neither memory nor time.
func TestAnswerIsBounded(t *testing.T) {
	r := newReceiver(t, http.StatusBadRequest)
	r.answer = strings.Repeat("é", 2<<20)
	if err := Webhook(t.Context(), r.URL, "", message()); err == nil || len(err.Error()) > 300 {
		t.Errorf("got %v", err)
	}
}

func TestAddresses(t *testing.T) {
	tests := []struct {
		address   string
		permanent bool
		says      string
	}{
		{"http://hooks.example.com/secret", true, "not encrypted"},
		{"ftp://hooks.example.com/secret", true, "not an http or https URL"},
		{"hooks.example.com/secret", true, "not an http or https URL"},
		{"http://[::1/secret", true, "not an http or https URL"},
		{"http://127.0.0.1:1/secret", false, "127.0.0.1:1 does not respond"},
	}
	for _, tt := range tests {
		err := Slack(t.Context(), tt.address, message())
		if err == nil || Permanent(err) != tt.permanent || !strings.Contains(err.Error(), tt.says) || strings.Contains(err.Error(), "/secret") {
			t.Errorf("%s: %v (permanent %v)", tt.address, err, Permanent(err))
		}
	}
}

func TestShorten(t *testing.T) {
	for text, want := range map[string]int{"short": 5, strings.Repeat("x", 4000): 4000, strings.Repeat("é", 4000): 4000} {
		if got := Shorten(text); len(got) > want || len(got) < want-1 || strings.ToValidUTF8(got, "?") != got {
			t.Errorf("%.10s...: %d bytes", text, len(got))
		}
	}
}
