package upstream

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/sluiceml/sluice/serving/gateway"
	"github.com/sluiceml/sluice/serving/oip"
	"github.com/sluiceml/sluice/serving/servingtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var _ gateway.Upstream = (*Model)(nil)

const (
	described = `{"name":"m","platform":"test","inputs":[{"name":"a","datatype":"FP32","shape":[-1,2]},{"name":"b","datatype":"INT64","shape":[1]}],
"outputs":[{"name":"y","datatype":"FP32","shape":[-1]},{"name":"z","datatype":"BYTES","shape":[-1]}]}`
	answered = `{"model_name":"m","outputs":[{"name":"z","shape":[1],"datatype":"BYTES","data":["yes"]},{"name":"y","shape":[1],"datatype":"FP32","data":[0.5]}]}`
)

// modelServer is what a test says it answers, and counts its connections.
type modelServer struct {
	*httptest.Server
	connections atomic.Int32
	metadata    string
	extensions  string // a JSON array
	infer       http.HandlerFunc
}

func serve(t testing.TB, infer http.HandlerFunc) *modelServer {
	t.Helper()
	s := &modelServer{metadata: described, extensions: "[]", infer: infer}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v2", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, `{"name":"test","extensions":%s}`, s.extensions)
	})
	mux.HandleFunc("GET /v2/models/m/versions/3/ready", func(http.ResponseWriter, *http.Request) {})
	mux.HandleFunc("GET /v2/models/m/versions/3", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, s.metadata) })
	mux.HandleFunc("POST /v2/models/m/versions/3/infer", func(w http.ResponseWriter, r *http.Request) { s.infer(w, r) })
	s.Server = httptest.NewUnstartedServer(mux)
	s.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			s.connections.Add(1)
		}
	}
	s.Start()
	t.Cleanup(s.Close)
	return s
}

func openServed(t testing.TB, s *modelServer) *Model {
	t.Helper()
	m, err := OpenModel(t.Context(), ModelOptions{URL: s.URL, Model: "m", Version: "3"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	})
	return m
}

func answers(status int, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}
}

func inputs() []oip.Tensor {
	return []oip.Tensor{{Name: "b", Shape: []int64{1}, Data: []int64{7}}, {Name: "a", Shape: []int64{1, 2}, Data: []float32{1, 2}}}
}

func TestInfer(t *testing.T) {
	var got oip.InferRequest
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		request, err := servingtest.ReadRequest(w, r)
		if err != nil {
			t.Error(err)
			return
		}
		got = *request
		answers(http.StatusOK, answered)(w, r)
	})
	m := openServed(t, s)
	const requests = 20
	for range requests {
		outputs, err := m.Infer(t.Context(), inputs())
		if err != nil {
			t.Fatal(err)
		}
		want := []oip.Tensor{{Name: "y", Shape: []int64{1}, Data: []float32{0.5}}, {Name: "z", Shape: []int64{1}, Data: []string{"yes"}}}
		if diff := cmp.Diff(want, outputs); diff != "" {
			t.Fatalf("outputs in the order of the description (-want +got):\n%s", diff)
		}
	}
	if diff := cmp.Diff(oip.InferRequest{Inputs: []oip.Tensor{inputs()[1], inputs()[0]}}, got); diff != "" {
		t.Errorf("sent (-want +got):\n%s", diff)
	}
	if n := s.connections.Load(); n != 1 {
		t.Errorf("%d connections for %d requests after each other, want 1", n, requests)
	}
}

func TestWhatComesOfAnAnswer(t *testing.T) {
	for _, tc := range []struct {
		name   string
		infer  http.HandlerFunc
		status int
		says   string
	}{
		{"refused", answers(400, `{"error":"no such token"}`), 422, "no such token"},
		{"refused by a framework", answers(422, `{"detail":[{"msg":"bad shape"}]}`), 422, "bad shape"},
		{"gone", answers(404, `nothing here`), 502, "nothing here"},
		{"failed", answers(500, `{"error":"CUDA out of memory"}`), 502, "CUDA out of memory"},
		{"no pod", answers(503, `no healthy upstream`), 503, "no healthy upstream"},
		{"too many", answers(429, ``), 429, "429"},
		{"moved", func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "/elsewhere", http.StatusTemporaryRedirect)
		}, 502, "307"},
		{"no JSON", answers(200, `{"outputs":[{"name":"y","shape":[1],"datatype":"FP32","data":[NaN]}]}`), 502, "cannot be parsed"},
		{"an output is missing", answers(200, `{"outputs":[{"name":"y","shape":[1],"datatype":"FP32","data":[1]}]}`), 502, `"z"`},
		{"too long", func(w http.ResponseWriter, _ *http.Request) {
			for range maxAnswer>>20 + 1 {
				_, _ = w.Write(make([]byte, 1<<20))
			}
		}, 502, "larger than"},
		{"hangs up", func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, 502, "does not respond"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := openServed(t, serve(t, tc.infer)).Infer(t.Context(), inputs())
			if err == nil || oip.ErrorStatus(err) != tc.status || !strings.Contains(err.Error(), tc.says) {
				t.Errorf("%d %v, want %d with %q", oip.ErrorStatus(err), err, tc.status, tc.says)
			}
		})
	}
}

// A server that lists the extension gets and sends binary data, of types too that have no JSON form. The request's ID and trace come along.
func TestBinaryData(t *testing.T) {
	var got oip.InferRequest
	var header http.Header
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		request, err := servingtest.ReadRequest(w, r)
		if err != nil {
			t.Error(err)
			return
		}
		got, header = *request, r.Header
		message, err := oip.InferResponse{ModelName: "m", Outputs: []oip.Tensor{{Name: "y", Shape: []int64{1}, Data: []oip.BFloat16{0x3f80}}}}.Encode(request)
		if err != nil {
			t.Error(err)
			return
		}
		oip.WriteMessage(w, message)
	})
	s.metadata = `{"name":"m","platform":"test","inputs":[{"name":"a","datatype":"FP16","shape":[2]}],"outputs":[{"name":"y","datatype":"BF16","shape":[1]}]}`
	if _, err := OpenModel(t.Context(), ModelOptions{URL: s.URL, Model: "m", Version: "3"}); err == nil || !strings.Contains(err.Error(), "does not list the extension") {
		t.Errorf("a server without the extension: %v", err)
	}
	s.extensions = `["binary_tensor_data"]`
	m := openServed(t, s)
	in := []oip.Tensor{{Name: "a", Shape: []int64{2}, Data: []oip.Float16{0x3c00, 0x7bff}}}
	call := oip.Call{ID: "7", TraceParent: "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", TraceState: "vendor=1"}
	outputs, err := m.Infer(oip.WithCall(t.Context(), call), in)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]oip.Tensor{{Name: "y", Shape: []int64{1}, Data: []oip.BFloat16{0x3f80}}}, outputs); diff != "" {
		t.Errorf("outputs (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(oip.InferRequest{ID: "7", Parameters: map[string]any{"binary_data_output": true}, Inputs: in}, got); diff != "" {
		t.Errorf("sent (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(call, oip.CallOf("7", header)); diff != "" {
		t.Errorf("the call (-want +got):\n%s", diff)
	}
	if _, err := m.Infer(t.Context(), in); err != nil || header.Get("traceparent") != "" || got.ID != "" {
		t.Errorf("without a trace: %v, %v", header, err)
	}
}

func TestInputsThatDoNotFitAreNotSent(t *testing.T) {
	m := openServed(t, serve(t, func(http.ResponseWriter, *http.Request) { t.Error("they were sent") }))
	if _, err := m.Infer(t.Context(), inputs()[:1]); oip.ErrorStatus(err) != http.StatusBadRequest {
		t.Errorf("got %v, want status 400", err)
	}
}

func TestAModelThatIsNotDescribed(t *testing.T) {
	s := serve(t, answers(http.StatusOK, answered))
	s.metadata = `{"name":"m","platform":"","inputs":[],"outputs":[]}`
	outputs, err := openServed(t, s).Infer(t.Context(), inputs())
	if err != nil || len(outputs) != 2 || outputs[0].Name != "z" {
		t.Errorf("%v, %v; want both outputs as they came", outputs, err)
	}
}

func TestATimeoutIsATimeout(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	m := openServed(t, serve(t, func(_ http.ResponseWriter, r *http.Request) {
		if _, err := io.ReadAll(r.Body); err != nil { // without which the server does not notice the client's end
			t.Error(err)
		}
		cancel()
		<-r.Context().Done()
	}))
	if _, err := m.Infer(ctx, inputs()); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want the context's error", err)
	}
}

// TestAConnectionThatTheServerClosed: a request that meets the end of a kept connection is repeated on a new one.
func TestAConnectionThatTheServerClosed(t *testing.T) {
	requests := 0
	m := openServed(t, serve(t, func(w http.ResponseWriter, r *http.Request) {
		if requests++; requests == 1 {
			conn, _, err := http.NewResponseController(w).Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			conn.Close()
			return
		}
		answers(http.StatusOK, answered)(w, r)
	}))
	if _, err := m.Infer(t.Context(), inputs()); err != nil || requests != 2 {
		t.Errorf("%d requests: %v", requests, err)
	}
}

func TestOpenSaysWhatIsWrong(t *testing.T) {
	t.Run("no server", func(t *testing.T) {
		if _, err := OpenModel(t.Context(), ModelOptions{URL: "http://127.0.0.1:1", Model: "m"}); !errors.Is(err, ErrNotReady) {
			t.Errorf("got %v, want ErrNotReady", err)
		}
	})
	t.Run("not ready", func(t *testing.T) {
		s := httptest.NewServer(answers(http.StatusServiceUnavailable, `{"error":"loading"}`))
		defer s.Close()
		if _, err := OpenModel(t.Context(), ModelOptions{URL: s.URL, Model: "m"}); !errors.Is(err, ErrNotReady) || !strings.Contains(err.Error(), "loading") {
			t.Errorf("got %v, want ErrNotReady with the server's word", err)
		}
	})
	t.Run("half precision", func(t *testing.T) {
		s := serve(t, nil)
		s.metadata = strings.Replace(described, "INT64", "FP16", 1)
		_, err := OpenModel(t.Context(), ModelOptions{URL: s.URL, Model: "m", Version: "3"})
		if err == nil || errors.Is(err, ErrNotReady) || !strings.Contains(err.Error(), "FP16") {
			t.Errorf("got %v, want an error that names the type", err)
		}
	})
}

func TestHostAndPath(t *testing.T) {
	var seen []string
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		seen = append(seen, r.Host+r.URL.Path)
		_, _ = fmt.Fprint(w, described)
	}))
	defer s.Close()
	m, err := OpenModel(t.Context(), ModelOptions{URL: s.URL + "/serving/", Host: "m.example.com", Model: "m"})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	want := []string{"m.example.com/serving/v2/models/m/ready", "m.example.com/serving/v2/models/m", "m.example.com/serving/v2"}
	if diff := cmp.Diff(want, seen); diff != "" {
		t.Errorf("asked (-want +got):\n%s", diff)
	}
}

// TestBusy: what a server says of when to ask again is handed on.
func TestBusy(t *testing.T) {
	for given, want := range map[string]time.Duration{
		"":              0,
		"7":             7 * time.Second,
		"-1":            0,
		"soon":          0,
		"9999999999999": maxRetryAfter, "9223372037": maxRetryAfter,
		time.Now().Add(90 * time.Minute).UTC().Format(http.TimeFormat): maxRetryAfter,
		time.Now().Add(-time.Minute).UTC().Format(http.TimeFormat):     0,
	} {
		m := openServed(t, serve(t, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Retry-After", given)
			answers(http.StatusTooManyRequests, `{"error": "the queue is full"}`)(w, r)
		}))
		_, err := m.Infer(t.Context(), inputs())
		if busy, ok := errors.AsType[*oip.Error](err); !ok || busy.Status != http.StatusTooManyRequests || busy.RetryAfter != want {
			t.Errorf("Retry-After: %s: %+v, want %v", given, busy, want)
		}
	}
}

func TestACertificateForAnotherName(t *testing.T) {
	s := httptest.NewUnstartedServer(answers(http.StatusOK, described))
	s.StartTLS()
	defer s.Close()
	_, err := OpenModel(t.Context(), ModelOptions{URL: s.URL, Model: "m"})
	if !errors.Is(err, ErrNotReady) || !strings.Contains(err.Error(), "cannot be trusted: the certificate of the server is from an authority that is not known here") {
		t.Errorf("got %v", err)
	}
}

// TestReconnect: of several servers behind one address, one that is added later gets requests, too; and no request is cut off for that.
func TestReconnect(t *testing.T) {
	const every = 20 * time.Millisecond
	s := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		time.Sleep(3 * every)
		_, _ = io.WriteString(w, answered)
	})
	opts := ModelOptions{URL: s.URL, Model: "m", Version: "3"}
	for _, opts.Reconnect = range []time.Duration{0, every} {
		m, err := OpenModel(t.Context(), opts)
		if err != nil {
			t.Fatal(err)
		}
		before := s.connections.Load()
		for range 5 {
			if _, err := m.Infer(t.Context(), inputs()); err != nil {
				t.Error(err)
			}
		}
		if made := s.connections.Load() - before; (made >= 4) != (opts.Reconnect > 0) {
			t.Errorf("with %v between them there were %d new connections for 5 requests one after the other", opts.Reconnect, made)
		}
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	}
}
