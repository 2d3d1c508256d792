package gateway

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"

	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/poll"
	"github.com/sluiceml/sluice/serving/access"
	"github.com/sluiceml/sluice/serving/door/doortest"
	"github.com/sluiceml/sluice/serving/oip/inference"
	"github.com/sluiceml/sluice/serving/routing"
)

// accessLines are the lines of an access log.
type accessLines struct {
	mu      sync.Mutex
	content bytes.Buffer
}

func (a *accessLines) Write(p []byte) (int, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.content.Write(p)
}

func (a *accessLines) String() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.content.String()
}

// want waits for so many lines and compares them, but for times and the client's address, which it checks.
func (a *accessLines) want(t *testing.T, want []access.Entry) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	for range poll.Every(ctx, 20*time.Millisecond) {
		if strings.Count(a.String(), "\n") >= len(want) {
			break
		}
	}
	var got []access.Entry
	for line := range strings.Lines(a.String()) {
		var e access.Entry
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		if age := time.Since(e.Time); age < 0 || age > time.Minute || e.Duration < 0 || e.Duration > 60_000 || e.Client == "" {
			t.Errorf("line %q: it began %v ago, at %s", line, age, e.Client)
		}
		got = append(got, e)
	}
	ignore := cmpopts.IgnoreFields(access.Entry{}, "Time", "Duration", "Client")
	if diff := cmp.Diff(want, got, ignore); diff != "" {
		t.Errorf("lines (-want +got):\n%s", diff)
	}
}

const (
	trace       = "4bf92f3577b34da6a3ce929d0e0e4736"
	traceparent = "00-" + trace + "-00f067aa0ba902b7-01"
)

// TestAccessLog: each request has a line, those too that are refused, and no line has what may be secret.
func TestAccessLog(t *testing.T) {
	signer := doortest.NewSigner(t, "1")
	jwks := filepath.Join(t.TempDir(), "jwks.json")
	doortest.Write(t, jwks, doortest.KeySet(t, signer))
	f := openFront(t, keyed(jwks), "shop.test")
	f.client.Transport.(*http.Transport).ExpectContinueTimeout = 20 * time.Second
	token := signer.Token(t, doortest.Claims(map[string]any{"sub": "alice"}))
	send := func(method, path, body, bearer, sends string) int {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), method, f.URL()+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+bearer)
		req.Header.Set("Traceparent", sends)
		req.Header.Set("Cookie", "session=secret-cookie")
		req.Header.Set("Expect", "100-continue") // so that a body that is refused is not sent
		resp, err := f.client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		n, err := io.Copy(io.Discard, resp.Body)
		if err := errors.Join(err, resp.Body.Close()); err != nil {
			t.Fatal(err)
		}
		return int(n)
	}
	const infers = "POST"
	model := f.Gateway.State().Releases[0].Model
	secret := strings.Replace(request, `{`, `{"id":"secret-id",`, 1)
	var want []access.Entry
	line := func(e access.Entry) {
		e.Target = "m"
		want = append(want, e)
	}
	in := int64(len(secret))
	f.do(t, "GET", f.URL()+readyPath, "", "")
	out := send(infers, inferPath+"?api_key=secret-query", secret, webKey, traceparent)
	line(access.Entry{Method: infers, Path: inferPath, Status: 200, In: in, Out: int64(out), Key: "web", Release: "1", Model: model, Trace: trace})
	out = send(infers, strings.Replace(inferPath, "/infer", "/versions/1/infer", 1), secret, token, "secret-trace")
	line(access.Entry{
		Method: infers, Path: strings.Replace(inferPath, "/infer", "/versions/1/infer", 1), Status: 200, In: in, Out: int64(out), Subject: "alice",
		Release: "1", Model: model, Named: true,
	})
	out = send(infers, inferPath, secret, "secret-key", "00-secret-00f067aa0ba902b7-01")
	line(access.Entry{Method: infers, Path: inferPath, Status: 401, Out: int64(out)})
	out = send(infers, inferPath, secret, metrics, "")
	line(access.Entry{Method: infers, Path: inferPath, Status: 403, Out: int64(out), Key: "prometheus"})
	out = send(infers, inferPath, strings.Repeat("secret-body", 2<<20), webKey, "")
	line(access.Entry{Method: infers, Path: inferPath, Status: 413, Out: int64(out), Key: "web"})
	out = send("GET", "/v2/nothing", "", ownKey, "")
	line(access.Entry{Method: "GET", Path: "/v2/nothing", Status: 404, Out: int64(out), Key: "(sluice)"})
	for range maxInFlight {
		f.Gateway.places <- struct{}{}
	}
	out = send(infers, inferPath, secret, webKey, "")
	line(access.Entry{Method: infers, Path: inferPath, Status: 429, In: in, Out: int64(out), Key: "web"})
	for range maxInFlight {
		<-f.Gateway.places
	}
	f.access.want(t, want)
	for _, text := range []string{"secret", webKey, metrics, ownKey, token, "parameters", "inputs"} {
		if strings.Contains(f.access.String(), text) {
			t.Errorf("%q is in the log:\n%s", text, f.access.String())
		}
	}
}

func TestAccessLogOfGRPC(t *testing.T) {
	f := openFront(t, spec.TargetGateway{Keys: keyed("").Keys}, "shop.test")
	client, ctx := f.dial(t, webKey)
	ctx = metadata.AppendToOutgoingContext(ctx, "traceparent", traceparent)
	if _, err := client.ServerReady(ctx, &inference.ServerReadyRequest{}); err != nil {
		t.Fatal(err)
	}
	answer, err := client.ModelInfer(ctx, typed(1))
	if err != nil {
		t.Fatal(err)
	}
	other := &inference.ModelInferRequest{ModelName: "other"}
	_, _ = client.ModelInfer(ctx, other) // the log says what came of it
	stranger, ctx := f.dial(t, "secret-key")
	_, _ = stranger.ModelInfer(ctx, typed(1))
	size := func(m proto.Message) int64 { return 5 + int64(proto.Size(m)) }
	line := func(code codes.Code, in, out int64, e access.Entry) access.Entry {
		c := int(code)
		e.Target, e.Method, e.Path, e.Status, e.GRPC, e.In, e.Out = "m", "POST", "/inference.GRPCInferenceService/ModelInfer", 200, &c, in, out
		return e
	}
	model := f.Gateway.State().Releases[0].Model
	f.access.want(t, []access.Entry{
		line(codes.OK, size(typed(1)), size(answer), access.Entry{Key: "web", Release: "1", Model: model, Trace: trace}),
		line(codes.NotFound, size(other), 0, access.Entry{Key: "web", Trace: trace}),
		line(codes.Unauthenticated, 0, 0, access.Entry{}),
	})
	if strings.Contains(f.access.String(), "secret") {
		t.Errorf("the log has\n%s", f.access.String())
	}
}

// TestAccessLogOfStreams: a stream has its line when it has ended, and says when its client has not got all of it.
func TestAccessLogOfStreams(t *testing.T) {
	var lines accessLines
	log := access.New(&lines, slog.New(slog.DiscardHandler))
	defer log.Close()
	const whole, left = "/v1/whole", "/v1/left"
	next := make(chan struct{})
	g, url := passingWith(t, Options{Protocol: OpenAI, Timeout: time.Minute, Access: log}, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		var goesOn chan struct{}
		if r.URL.Path == whole {
			goesOn = next
		}
		for range 2 {
			fmt.Fprint(w, token)
			w.(http.Flusher).Flush()
			select {
			case <-goesOn:
			case <-r.Context().Done():
				return
			}
		}
	})
	ask := func(path string) *http.Response {
		resp, err := http.Post(url+path+"?key=secret", "application/json", strings.NewReader("{}"))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(resp.Body, make([]byte, len(token))); err != nil {
			t.Fatal(err)
		}
		return resp
	}
	answer := ask(whole)
	if lines.String() != "" {
		t.Errorf("before the end there is a line %s", lines.String())
	}
	close(next)
	if _, err := io.Copy(io.Discard, answer.Body); err != nil {
		t.Fatal(err)
	}
	_ = answer.Body.Close()
	_ = ask(left).Body.Close()
	counts(t, g, 2)
	model := g.State().Releases[0].Model
	line := func(path string, out int, aborted bool) access.Entry {
		return access.Entry{
			Target: "m", Method: "POST", Path: path, Status: 200, In: 2, Out: int64(out), Release: "1", Model: model, Aborted: aborted,
		}
	}
	lines.want(t, []access.Entry{line(whole, 2*len(token), false), line(left, len(token), true)})
}

// TestAccessLogOfClientsThatLeave: a short answer is kept back until its handler ends, so that writing it to nobody does not fail.
func TestAccessLogOfClientsThatLeave(t *testing.T) {
	short := func(w http.ResponseWriter) { _, _ = w.Write([]byte("short")) }
	canceled := int(codes.Canceled)
	for _, tc := range []struct {
		name, kind    string
		before, after func(http.ResponseWriter) // the client leaves; nil after if it stays
		want          access.Entry
	}{
		{"stays", "text/plain", short, nil, access.Entry{Status: 200, Out: 5}},
		{"a short answer", "text/plain", nil, short, access.Entry{Status: 200, Out: 5, Aborted: true}},
		{"no body", "text/plain", nil, func(w http.ResponseWriter) { w.WriteHeader(204) }, access.Entry{Status: 204, Aborted: true}},
		{"nothing", "text/plain", nil, func(http.ResponseWriter) {}, access.Entry{Status: 200, Aborted: true}},
		{"with all of it", "text/plain", short, func(http.ResponseWriter) {}, access.Entry{Status: 200, Out: 5}},
		{"a call", "application/grpc", nil, func(http.ResponseWriter) {}, access.Entry{Status: 200, GRPC: &canceled, Aborted: true}},
		{"a call's trailer", "application/grpc", short, func(http.ResponseWriter) {}, access.Entry{Status: 200, GRPC: &canceled, Out: 5, Aborted: true}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var lines accessLines
			log := access.New(&lines, slog.New(slog.DiscardHandler))
			defer log.Close()
			g := &Gateway{opts: Options{Target: "m", Access: log}}
			ctx, leave := context.WithCancel(t.Context())
			defer leave()
			server := httptest.NewUnstartedServer(g.logged(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if tc.before != nil {
					tc.before(w)
				}
				if tc.after == nil {
					return
				}
				leave()
				<-r.Context().Done()
				tc.after(w)
			}), modelVerb))
			server.EnableHTTP2 = tc.kind == "application/grpc"
			server.StartTLS()
			defer server.Close()
			req, err := http.NewRequestWithContext(ctx, http.MethodPost, server.URL+"/x", http.NoBody)
			if err != nil {
				t.Fatal(err)
			}
			req.Header.Set("Content-Type", tc.kind)
			if resp, err := server.Client().Do(req); err == nil {
				_ = resp.Body.Close()
			}
			tc.want.Target, tc.want.Method, tc.want.Path = "m", http.MethodPost, "/x"
			lines.want(t, []access.Entry{tc.want})
		})
	}
}

// TestAccessLogOfRouting: a line says how its release was chosen.
func TestAccessLogOfRouting(t *testing.T) {
	var lines accessLines
	log := access.New(&lines, slog.New(slog.DiscardHandler))
	defer log.Close()
	b := newBenchWith(t, Options{Access: log})
	doc := b.route(t, &routing.Shadow{Version: "2", Share: 1}, weightedBehaviour{"1", "echo", 1}, weightedBehaviour{"2", "fails", 0})
	doc.Candidate, doc.Stable, doc.Sticky = "2", "1", &routing.Sticky{Header: "X-User"}
	doc, err := routing.Set(t.Context(), b.store, doc.Revision, doc)
	if err != nil {
		t.Fatal(err)
	}
	b.untilServing(t, doc.Revision)
	var want []access.Entry
	line := func(status int, answer *httptest.ResponseRecorder, e access.Entry) {
		t.Helper()
		if answer.Code != status {
			t.Fatalf("got %d %s, want %d", answer.Code, answer.Body, status)
		}
		e.Target, e.Method, e.Path, e.Status, e.In, e.Out = "m", "POST", inferPath, status, int64(len(request)), int64(answer.Body.Len())
		want = append(want, e)
	}
	model := map[string]string{}
	for _, r := range doc.Releases {
		model[r.Version] = r.Model.Digest
	}
	line(200, b.do("POST", inferPath, request), access.Entry{Release: "1", Model: model["1"], Shadow: "2"})
	line(200, b.do("POST", inferPath, request, "X-User", "secret"), access.Entry{Release: "1", Model: model["1"], Shadow: "2", Sticky: true})
	line(500, b.do("POST", inferPath, request, VersionHeader, "2"), access.Entry{Release: "2", Model: model["2"], Named: true})
	line(404, b.do("POST", inferPath, request, VersionHeader, "secret"), access.Entry{})
	lines.want(t, want)
	if strings.Contains(lines.String(), "secret") {
		t.Errorf("the log has\n%s", lines.String())
	}
}

func TestLostLinesAreCounted(t *testing.T) {
	broken, said := io.Pipe()
	_ = broken.Close() // nobody reads
	log := access.New(said, slog.New(slog.DiscardHandler))
	defer log.Close()
	b := newBenchWith(t, Options{Access: log})
	b.do("POST", inferPath, request)
	b.until(t, func() bool {
		return strings.Contains(ask(b.Metrics(), http.MethodGet, "/metrics", "").Body.String(), `sluice_access_log_lost_total{target="m"} 1`)
	})
}
