package external

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/artifact"
	"github.com/sluiceml/sluice/internal/poll"
	"github.com/sluiceml/sluice/serving/gateway"
	"github.com/sluiceml/sluice/serving/onnx"
	"github.com/sluiceml/sluice/serving/routing"
	"github.com/sluiceml/sluice/serving/servingtest"
	"github.com/sluiceml/sluice/store"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// target is one of whose servers nobody waits long for.
func target() spec.ExternalTarget {
	t := spec.DefaultsOf[spec.ExternalTarget]()
	t.ReadyWithin = spec.Duration(time.Second)
	return t
}

// servers are what somebody else keeps: a server for each release below a path, with the model that the routing document says.
type servers struct {
	t     *testing.T
	store *store.Store
	mu    sync.Mutex
	of    map[string]http.Handler
}

func (s *servers) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	version := r.PathValue("release")
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.of[version] == nil {
		model, err := s.load(r.Context(), version)
		if err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		s.of[version] = servingtest.Routes(servingtest.Name, model)
	}
	http.StripPrefix("/"+version, s.of[version]).ServeHTTP(w, r)
}

func (s *servers) load(ctx context.Context, version string) (*onnx.Session, error) {
	doc, err := routing.Current(ctx, s.store, servingtest.Name)
	if err != nil {
		return nil, err
	}
	release, _ := doc.Release(version)
	dir := filepath.Join(s.t.TempDir(), "model")
	if err := s.store.Fetch(ctx, release.Model, dir); err != nil {
		return nil, err
	}
	file, err := onnx.ModelFile(dir)
	if err != nil {
		return nil, err
	}
	session, err := onnx.Open(file)
	if err == nil {
		s.t.Cleanup(func() { _ = session.Close() })
	}
	return session, err
}

func TestConformance(t *testing.T) {
	servingtest.Run(t, func(t *testing.T, s *store.Store) servingtest.Harness {
		mux := http.NewServeMux()
		mux.Handle("/{release}/", &servers{t: t, store: s, of: map[string]http.Handler{}})
		elsewhere := httptest.NewServer(mux)
		t.Cleanup(elsewhere.Close)
		at := target()
		at.At = elsewhere.URL + "/${release}"
		return servingtest.Open(t, s, func(ports gateway.Ports) *gateway.Server { return serve(t, s, at, ports) })
	})
}

func serve(t *testing.T, s *store.Store, at spec.ExternalTarget, ports gateway.Ports) *gateway.Server {
	t.Helper()
	server, err := Serve(t.Context(), s, servingtest.Name, at, ports, "", slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	return server
}

// ref names a model that nobody reads.
func ref(digit string) artifact.Ref {
	return artifact.Ref{Type: artifact.Model, Digest: "sha256:" + strings.Repeat(digit, 64)}
}

// TestUnread: whatever the server speaks passes through as it is, and a release is judged by status. A server that is not healthy gets
// nothing.
func TestUnread(t *testing.T) {
	var ill atomic.Bool
	var asked atomic.Int64
	elsewhere := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/aaaaaaaaaaaa/healthz" {
			if ill.Load() {
				w.WriteHeader(http.StatusServiceUnavailable)
			}
			return
		}
		asked.Add(1)
		body, _ := io.ReadAll(r.Body)
		w.Header().Set("X-Own", r.Header.Get("X-Own"))
		switch r.URL.Path {
		case "/aaaaaaaaaaaa/busy":
			w.Header().Set("Retry-After", "7")
			w.WriteHeader(http.StatusTooManyRequests)
		case "/aaaaaaaaaaaa/moved":
			http.Redirect(w, r, "/elsewhere", http.StatusFound)
		default:
			fmt.Fprintf(w, "%s %s %s %s", r.Method, r.URL, body, r.Header.Get(gateway.VersionHeader))
		}
	}))
	defer elsewhere.Close()
	at := target()
	at.At, at.Protocol, at.Health = elsewhere.URL+"/${model}", "http", "/healthz"
	s := servingtest.NewStore(t)
	server := serve(t, s, at, gateway.Ports{})
	defer servingtest.Stop(t, server)
	to := gateway.NewTarget(s, servingtest.Name, server.URL(), server.ControlURL())
	doc, release, err := to.Load(t.Context(), 0, routing.Release{Model: ref("a"), Run: "r", Step: "ship"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	doc, err = to.SetTraffic(t.Context(), doc.Revision, gateway.Split{Weights: map[string]float64{release.Version: 1}})
	if err != nil {
		t.Fatal(err)
	}
	client := &http.Client{Transport: &http.Transport{}, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	defer client.CloseIdleConnections()
	ask := func(method, path, body string) (status int, header http.Header, text string) {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), method, server.URL()+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("X-Own", "kept")
		resp, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		raw, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return resp.StatusCode, resp.Header, string(raw)
	}
	for _, tc := range []struct {
		method, path, body string
		status             int
		want               string
	}{
		{"PUT", "/a%2Fb/?x=%20", "{not JSON", 200, "PUT /aaaaaaaaaaaa/a%2Fb/?x=%20 {not JSON "},
		{"GET", "/busy", "", 429, ""},
		{"GET", "/moved", "", 302, `<a href="/elsewhere">Found</a>.` + "\n\n"},
		{"GET", "/x/../../secret", "", 400, "{\"error\":\"the path /x/../../secret has a `..`\"}\n"},
		{"GET", "/v2/health/ready", "", 200, `{"ready":true}` + "\n"},
	} {
		status, header, text := ask(tc.method, tc.path, tc.body)
		if status != tc.status || text != tc.want {
			t.Errorf("%s %s: %d %q, want %d %q", tc.method, tc.path, status, text, tc.status, tc.want)
		}
		passed := asked.Load() > 0 && tc.status != 400 && tc.path != "/v2/health/ready"
		if passed && (header.Get("X-Own") != "kept" || header.Get(gateway.ReleaseHeader) != release.Version) {
			t.Errorf("%s: headers %v", tc.path, header)
		}
		if tc.status == http.StatusTooManyRequests && header.Get("Retry-After") != "7" {
			t.Errorf("busy: %v", header)
		}
	}
	if c := server.Gateway.Stats().At(doc.Revision).Versions[release.Version]; c.Requests != 3 || c.Failures != 1 || c.Latency.Count() != 3 {
		t.Errorf("%+v, want 3 requests, of which the busy one failed", c)
	}
	ill.Store(true)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	for range poll.Every(ctx, 20*time.Millisecond) {
		if status, header, _ := ask("GET", "/", ""); status == http.StatusServiceUnavailable && header.Get("Retry-After") != "" {
			break
		}
	}
	before := asked.Load()
	if _, _, text := ask("GET", "/", ""); asked.Load() != before || !strings.Contains(text, "not healthy") {
		t.Errorf("a server that is ill was asked: %s", text)
	}
}

// TestServersInTurn: the candidate has the server that does not serve, whatever became of those before it.
func TestServersInTurn(t *testing.T) {
	s := servingtest.NewStore(t)
	at := target()
	at.Servers = []string{"http://a", "http://b"}
	doc := routing.Document{Target: "m"}
	where := map[string]string{}
	for _, step := range []struct{ loaded, serves string }{{"1", "1"}, {"2", "1"}, {"3", "3"}, {"4", "4"}, {"5", "4"}} {
		doc.Versions++
		doc.Releases = append(doc.Releases, routing.Release{Version: step.loaded, Model: ref("a")})
		var err error
		if doc, err = routing.Set(t.Context(), s, doc.Revision, doc); err != nil {
			t.Fatal(err)
		}
		for range 2 { // two gateways
			where[step.loaded], err = locate(t.Context(), s, "m", at, routing.Release{Version: step.loaded})
			if err != nil {
				t.Fatal(err)
			}
		}
		for i := range doc.Releases {
			doc.Releases[i].Weight = 0
			if doc.Releases[i].Version == step.serves {
				doc.Releases[i].Weight = 1
			}
		}
		if doc, err = routing.Set(t.Context(), s, doc.Revision, doc); err != nil {
			t.Fatal(err)
		}
	}
	if got := fmt.Sprint(where); got != "map[1:http://a 2:http://b 3:http://b 4:http://a 5:http://b]" {
		t.Error(got)
	}
}

func TestNeverHealthy(t *testing.T) {
	s := servingtest.NewStore(t)
	at := target()
	at.At, at.Protocol, at.ReadyWithin = "http://127.0.0.1:9/${release}", "http", spec.Duration(300*time.Millisecond)
	server := serve(t, s, at, gateway.Ports{})
	defer servingtest.Stop(t, server)
	to := gateway.NewTarget(s, servingtest.Name, server.URL(), server.ControlURL())
	_, _, err := to.Load(t.Context(), 0, routing.Release{Model: ref("a"), Run: "r", Step: "ship"}, nil)
	const want = "the server at http://127.0.0.1:9/1 is not healthy after 300ms: the model is not ready: the model's server does not respond: "
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("%v, want %q", err, want)
	}
}
