package gateway

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/sluiceml/sluice/internal/artifact"
	"github.com/sluiceml/sluice/serving/oip"
	"github.com/sluiceml/sluice/serving/routing"
	"github.com/sluiceml/sluice/serving/stats"
	"github.com/sluiceml/sluice/store"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// scripted is an upstream whose model file says what it does; real models are served in the conformance suite.
type scripted struct {
	behaviour string
	release   <-chan struct{} // "waits" answers when it is closed
	closed    sync.Once
	onClose   func()
}

func (s *scripted) Inputs() []oip.TensorMetadata {
	return []oip.TensorMetadata{{Name: "x", Datatype: oip.FP32, Shape: []int64{-1, 1}}}
}

func (s *scripted) Outputs() []oip.TensorMetadata {
	return []oip.TensorMetadata{{Name: "y", Datatype: oip.FP32, Shape: []int64{-1, 1}}}
}

func (s *scripted) Infer(ctx context.Context, inputs []oip.Tensor) ([]oip.Tensor, error) {
	answer := inputs[0].Data
	switch s.behaviour {
	case "fails":
		return nil, errors.New("out of luck")
	case "hangs":
		<-ctx.Done()
		return nil, ctx.Err()
	case "waits":
		<-s.release
	case "nan":
		answer = []float32{float32(math.NaN())}
	case "empty":
		return []oip.Tensor{{Name: "y", Shape: []int64{1, 0}, Data: []float32{}}}, nil
	case "long": // more than a connection takes that nobody reads from
		answer = make([]float32, 8<<20)
		return []oip.Tensor{{Name: "y", Shape: []int64{1, 8 << 20}, Data: answer}}, nil
	case "panics":
		panic("out of bounds")
	case "refuses":
		return nil, oip.Invalid("not that")
	}
	return []oip.Tensor{{Name: "y", Shape: []int64{1, 1}, Data: answer}}, nil
}

func (s *scripted) Close() error {
	s.closed.Do(s.onClose)
	return nil
}

// bench is a gateway under test with a store to steer it by.
type bench struct {
	*Gateway
	store   *store.Store
	cable   *partition // of the gateway to the store
	release chan struct{}
	mu      sync.Mutex
	open    int // upstreams
}

func newBench(t *testing.T, timeout time.Duration) *bench {
	t.Helper()
	return newBenchWith(t, Options{Timeout: timeout})
}

func newBenchWith(t *testing.T, opts Options) *bench {
	t.Helper()
	s, err := store.Open(t.Context(), "file://"+t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	b := &bench{store: s, cable: &partition{Driver: s.Driver()}, release: make(chan struct{})}
	if opts.Open, err = Local(s, filepath.Join(t.TempDir(), "models"), b.load); err != nil {
		t.Fatal(err)
	}
	opts.Store, opts.Target, opts.Logger = store.New(b.cable, s.URL()), "m", slog.New(slog.DiscardHandler)
	b.Gateway = New(opts)
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
		if b.open != 0 {
			t.Errorf("%d models are still in memory after Close", b.open)
		}
	})
	return b
}

func (b *bench) load(_ context.Context, _ routing.Release, dir string, _ func(string)) (Upstream, error) {
	behaviour, err := os.ReadFile(filepath.Join(dir, "model"))
	if err != nil {
		return nil, err
	}
	if string(behaviour) == "unloadable" {
		return nil, errors.New("no such model")
	}
	b.count(1)
	return &scripted{behaviour: string(behaviour), release: b.release, onClose: func() { b.count(-1) }}, nil
}

func (b *bench) count(n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.open += n
}

func (b *bench) opened() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.open
}

// route writes the next revision: releases with these behaviours and weights. The first is version 1.
func (b *bench) route(t *testing.T, shadow *routing.Shadow, releases ...weightedBehaviour) routing.Document {
	t.Helper()
	doc, err := routing.Current(t.Context(), b.store, "m")
	if err != nil {
		t.Fatal(err)
	}
	doc.Versions, doc.Releases, doc.Shadow = 99, nil, shadow
	for _, r := range releases {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "model"), []byte(r.behaviour), 0o600); err != nil {
			t.Fatal(err)
		}
		ref, err := b.store.PutTree(t.Context(), artifact.Model, dir, nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		doc.Releases = append(doc.Releases, routing.Release{Version: r.version, Model: ref, Weight: r.weight})
	}
	if doc, err = routing.Set(t.Context(), b.store, doc.Revision, doc); err != nil {
		t.Fatal(err)
	}
	b.Poke()
	return doc
}

type weightedBehaviour struct {
	version, behaviour string
	weight             float64
}

func (b *bench) until(t *testing.T, holds func() bool) {
	t.Helper()
	deadline := time.After(20 * time.Second)
	for !holds() {
		select {
		case <-deadline:
			t.Fatalf("not in time: %+v", b.State())
		case <-time.After(2 * time.Millisecond):
		}
	}
}

func (b *bench) untilServing(t *testing.T, revision int64) {
	t.Helper()
	b.until(t, func() bool { return b.State().Serving == revision })
}

func (b *bench) do(method, path, body string, header ...string) *httptest.ResponseRecorder {
	return ask(b, method, path, body, header...)
}

func ask(h http.Handler, method, path, body string, header ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, path, strings.NewReader(body))
	r.Host = "127.0.0.1:8080"
	r.Header.Set("Content-Type", "application/json")
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

const (
	inferPath = "/v2/models/m/infer"
	request   = `{"id":"1","inputs":[{"name":"x","shape":[1,1],"datatype":"FP32","data":[0.75]}]}`
)

func TestProtocol(t *testing.T) {
	b := newBench(t, 0)
	b.until(t, func() bool { return b.do(http.MethodGet, "/v2/health/ready", "").Code == http.StatusOK })
	for path, want := range map[string]int{"/v2/models/m": 503, "/v2/models/m/ready": 503, "/v2/health/live": 200} {
		if got := b.do(http.MethodGet, path, "").Code; got != want {
			t.Errorf("before any release %s answers %d, want %d", path, got, want)
		}
	}
	if w := b.do(http.MethodPost, inferPath, request); w.Code != http.StatusServiceUnavailable {
		t.Errorf("before any release infer answers %d", w.Code)
	}
	doc := b.route(t, nil, weightedBehaviour{"1", "echo", 1}, weightedBehaviour{"2", "fails", 0})
	b.untilServing(t, doc.Revision)
	b.until(t, func() bool { return b.State().Releases[1].State == Ready })
	asked := strings.Replace(request, `}]}`, `}],"outputs":[{"name":"%s"}]}`, 1)
	for _, tc := range []struct {
		name, method, path, body string
		header                   []string
		status                   int
		contains                 string
	}{
		{"server", "GET", "/v2", "", nil, 200, `"name":"sluice"`},
		{"ready", "GET", "/v2/health/ready", "", nil, 200, `true`},
		{"model", "GET", "/v2/models/m", "", nil, 200, `"versions":["1","2"],"platform":"onnxruntime_onnx","inputs":[{"name":"x","datatype":"FP32","shape":[-1,1]}]`},
		{"model ready", "GET", "/v2/models/m/ready", "", nil, 200, `true`},
		{"version ready", "GET", "/v2/models/m/versions/2/ready", "", nil, 200, `true`},
		{"no such version", "GET", "/v2/models/m/versions/3/ready", "", nil, 503, `false`},
		{"no such model", "GET", "/v2/models/other", "", nil, 404, `/v2/models/m`},
		{"a model that is a path", "POST", "/v2/models/../models/m/infer", request, nil, 404, `/v2/models/m`},
		{"a model that is an escaped path", "POST", "/v2/models/%2e%2e/infer", request, nil, 404, `/v2/models/m`},
		{"infer", "POST", inferPath, request, nil, 200, `{"model_name":"m","model_version":"1","id":"1","outputs":[{"name":"y","shape":[1,1],"datatype":"FP32","data":[0.75]}]}`},
		{"one output", "POST", inferPath, strings.Replace(asked, "%s", "y", 1), nil, 200, `"name":"y"`},
		{"no such output", "POST", inferPath, strings.Replace(asked, "%s", "z", 1), nil, 400, `no output`},
		{"infer of a version", "POST", "/v2/models/m/versions/2/infer", request, nil, 500, `out of luck`},
		{"infer by header", "POST", inferPath, request, []string{VersionHeader, "2"}, 500, `out of luck`},
		{"infer of no version", "POST", inferPath, request, []string{VersionHeader, "3"}, 404, `no version 3`},
		{"no request", "POST", inferPath, `[]`, nil, 400, `{"error":`},
		{"bad label", "POST", inferPath, strings.Replace(request, `{`, `{"parameters":{"label":0.5},`, 1), nil, 400, `label`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := b.do(tc.method, tc.path, tc.body, tc.header...)
			if w.Code != tc.status || !strings.Contains(w.Body.String(), tc.contains) {
				t.Errorf("%d %s, want %d with %s", w.Code, w.Body, tc.status, tc.contains)
			}
		})
	}
	// Of these, only the three good requests that chance assigned are counted.
	if counts := b.Stats().At(doc.Revision).Versions; counts["1"].Requests != 3 || counts["2"].Requests != 0 {
		t.Errorf("counts %+v", counts)
	}
}

func TestOutcomesAreCounted(t *testing.T) {
	labelled := strings.Replace(request, `{`, `{"parameters":{"label":0},`, 1)
	for _, tc := range []struct {
		behaviour, body                 string
		status                          int
		requests, failures, wrongAnswer int64
	}{
		{"echo", request, 200, 1, 0, 0},
		{"echo", labelled, 200, 1, 0, 1},
		{"fails", request, 500, 1, 1, 0},
		{"hangs", request, 504, 1, 1, 0},
		{"nan", request, 500, 1, 1, 0},
		{"panics", request, 500, 1, 1, 0},
		{"empty", request, 200, 1, 0, 0},
		{"empty", labelled, 200, 1, 0, 1},
		{"echo", strings.Replace(labelled, `:0}`, `:152}`, 1), 400, 0, 0, 0},
		{"refuses", request, 400, 0, 0, 0},
	} {
		t.Run(tc.behaviour, func(t *testing.T) {
			b := newBench(t, 50*time.Millisecond)
			doc := b.route(t, nil, weightedBehaviour{"1", tc.behaviour, 1})
			b.untilServing(t, doc.Revision)
			w := b.do(http.MethodPost, inferPath, tc.body)
			if w.Code != tc.status || w.Header().Get(ReleaseHeader) != "1" {
				t.Errorf("%d %s by release %q", w.Code, w.Body, w.Header().Get(ReleaseHeader))
			}
			c := b.Stats().At(doc.Revision).Versions["1"]
			if c.Requests != tc.requests || c.Failures != tc.failures || c.Wrong != tc.wrongAnswer {
				t.Errorf("counts %+v", c)
			}
		})
	}
}

// TestAClientThatGoesAwayIsCounted: in a rollout, a client that gives up does not hide that its release hangs. Otherwise the work ends.
func TestAClientThatGoesAwayIsCounted(t *testing.T) {
	for _, trial := range []bool{true, false} {
		b := newBench(t, 50*time.Millisecond)
		doc := b.try(t, "hangs", "hangs", func() {})
		want := stats.Counts{Requests: 1, Failures: 1}
		if !trial {
			doc.Candidate, doc.Stable, want = "", "", stats.Counts{Left: 1}
			var err error
			if doc, err = routing.Set(t.Context(), b.store, doc.Revision, doc); err != nil {
				t.Fatal(err)
			}
			b.untilServing(t, doc.Revision)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		r := httptest.NewRequestWithContext(ctx, http.MethodPost, inferPath, strings.NewReader(request))
		r.Header.Set("Content-Type", "application/json")
		b.ServeHTTP(httptest.NewRecorder(), r)
		at := b.Stats().At(doc.Revision)
		c := at.Versions["1"].Plus(at.Versions["2"])
		if got := (stats.Counts{Requests: c.Requests, Failures: c.Failures, Left: c.Left}); !reflect.DeepEqual(got, want) {
			t.Errorf("in a rollout: %v: counts %+v, want %+v", trial, got, want)
		}
		if at.Started != 1 || at.Settled != 1 {
			t.Errorf("in a rollout: %v: %d started, %d ended, want 1", trial, at.Started, at.Settled)
		}
	}
}

// TestStartedRequests: what has begun is reported before it ends, and what has ended only when all before it have.
func TestStartedRequests(t *testing.T) {
	c := newCounters()
	c.begin(3, nil, nil)
	var ends []func()
	for range 4 {
		ends = append(ends, c.start(3))
	}
	for _, step := range []struct{ ended, settled int64 }{{2, 0}, {0, 1}, {2, 1}, {1, 3}, {3, 4}} {
		ends[step.ended]()
		if got := c.byRevision()[0]; got.Started != 4 || got.Settled != step.settled {
			t.Errorf("after the end of %d: %d of %d have ended, want %d of 4", step.ended, got.Settled, got.Started, step.settled)
		}
	}
	c.start(4)() // a revision that is forgotten
}

func TestARevisionIsFoundWithoutAPoke(t *testing.T) {
	b := newBench(t, 0)
	doc := b.route(t, nil, weightedBehaviour{"1", "echo", 1})
	b.untilServing(t, doc.Revision)
	doc, err := routing.Set(t.Context(), b.store, doc.Revision, doc)
	if err != nil {
		t.Fatal(err)
	}
	b.untilServing(t, doc.Revision)
}

func TestReleasesThatAreNotNamedAreUnloaded(t *testing.T) {
	b := newBench(t, 0)
	doc := b.route(t, nil, weightedBehaviour{"1", "waits", 0.5}, weightedBehaviour{"2", "echo", 0.5})
	b.until(t, func() bool { return b.opened() == 2 })
	close(b.release) // for the warm-up
	b.untilServing(t, doc.Revision)
	b.route(t, nil, weightedBehaviour{"2", "echo", 1})
	b.until(t, func() bool { return b.opened() == 1 })
	if w := b.do(http.MethodPost, inferPath, request); w.Header().Get(ReleaseHeader) != "2" {
		t.Errorf("release %q answers", w.Header().Get(ReleaseHeader))
	}
}

// A gateway that starts in the middle of a rollout and cannot load the stable release must not give the candidate its traffic.
func TestTheShareOfAReleaseThatFailedIsNotServed(t *testing.T) {
	b := newBench(t, 0)
	doc := b.route(t, nil, weightedBehaviour{"1", "unloadable", 0.9}, weightedBehaviour{"2", "echo", 0.1})
	b.untilServing(t, doc.Revision)
	answered := 0
	for range 1000 {
		switch w := b.do(http.MethodPost, inferPath, request); {
		case w.Code == http.StatusOK && w.Header().Get(ReleaseHeader) == "2":
			answered++
		case w.Code != http.StatusServiceUnavailable || !strings.Contains(w.Body.String(), "load release 1: no such model"):
			t.Fatalf("%d %s", w.Code, w.Body)
		}
	}
	if answered == 0 || answered > 200 { // 100 are expected, with a standard deviation of 9.5
		t.Errorf("the candidate answers %d of 1000 requests at 10%%", answered)
	}
	if counts := b.Stats().At(doc.Revision).Versions; len(counts) != 0 {
		t.Errorf("counts %+v; there was nothing to compare the candidate with", counts)
	}
	if got := b.do(http.MethodGet, "/v2/health/ready", "").Code; got != http.StatusServiceUnavailable {
		t.Errorf("ready answers %d", got)
	}
	b.route(t, nil, weightedBehaviour{"1", "unloadable", 1})
	b.untilServing(t, doc.Revision+1)
	if w := b.do(http.MethodPost, inferPath, request); w.Code != http.StatusServiceUnavailable {
		t.Errorf("a candidate that was withdrawn answers: %d", w.Code)
	}
}

func TestWhatServesGoesOnWhenTheNextRevisionFails(t *testing.T) {
	b := newBench(t, 0)
	doc := b.route(t, nil, weightedBehaviour{"1", "echo", 1})
	b.untilServing(t, doc.Revision)
	doc = b.route(t, nil, weightedBehaviour{"2", "unloadable", 0.9}, weightedBehaviour{"3", "echo", 0.1})
	b.until(t, func() bool {
		r := b.State().Releases
		return len(r) == 2 && r[0].State == Failed && r[1].State == Ready
	})
	for range 20 {
		if w := b.do(http.MethodPost, inferPath, request); w.Code != http.StatusOK || w.Header().Get(ReleaseHeader) != "1" {
			t.Fatalf("%d by release %q", w.Code, w.Header().Get(ReleaseHeader))
		}
	}
	if r := b.State().Releases[0]; !strings.Contains(r.Error, "no such model") {
		t.Errorf("state %+v", r)
	}
	if s := b.State(); s.Revision != doc.Revision || s.Serving == doc.Revision {
		t.Errorf("state %+v", s)
	}
}

func TestShadowQueueNeverDelaysUsers(t *testing.T) {
	b := newBench(t, 0)
	first := b.route(t, nil, weightedBehaviour{"1", "echo", 1})
	b.untilServing(t, first.Revision)
	doc := b.route(t, &routing.Shadow{Version: "2", Share: 1}, weightedBehaviour{"1", "echo", 1}, weightedBehaviour{"2", "waits", 0})
	b.until(t, func() bool { return b.opened() == 2 })
	for range warmUps {
		b.release <- struct{}{}
	}
	b.untilServing(t, doc.Revision)
	const requests = mirrorQueue + 50
	for range requests {
		if w := b.do(http.MethodPost, inferPath, request); w.Code != http.StatusOK {
			t.Fatalf("%d %s", w.Code, w.Body)
		}
	}
	close(b.release)
	b.until(t, func() bool {
		s := b.Stats().At(doc.Revision).Shadow
		return s.Mirrored+s.Dropped == requests
	})
	s := b.Stats().At(doc.Revision).Shadow
	if s.Dropped < 49 || s.Agree != s.Mirrored || s.MaxAbs != 0 {
		t.Errorf("shadow %+v", s)
	}
	want := fmt.Sprintf(`sluice_shadow_total{target="m",version="2",what="dropped"} %d`, s.Dropped)
	if metrics := ask(b.Metrics(), http.MethodGet, "/metrics", "").Body.String(); !strings.Contains(metrics, want) {
		t.Errorf("no %s in\n%s", want, metrics)
	}
}

// TestShadowQueueIsBoundedInBytes: large requests are dropped before there are too many to keep, and make room when they have been repeated.
func TestShadowQueueIsBoundedInBytes(t *testing.T) {
	c := newCounters()
	c.begin(1, nil, nil)
	m := newMirror(c, time.Minute, slog.New(slog.DiscardHandler))
	shadow := &release{Release: routing.Release{Version: "2"}}
	add := func() {
		shadow.inflight.Add(1)
		m.add(mirrored{
			revision: 1, shadow: shadow, inputs: []oip.Tensor{{Data: []string{strings.Repeat("x", mirrorBytes/8)}}},
			outputs: []oip.Tensor{{Data: make([]float32, mirrorBytes/8/4)}},
		})
	}
	for range 6 {
		add()
	}
	if s := c.byRevision()[0].Shadow; s == nil || s.Dropped != 3 || len(m.queue) != 3 {
		t.Fatalf("%d wait, %+v; a quarter of the bound and a little more each", len(m.queue), s)
	}
	stopped, cancel := context.WithCancel(t.Context())
	cancel()
	m.close()
	m.run(stopped)
	shadow.inflight.Wait()
	if left := m.waiting.Load(); left != 0 {
		t.Errorf("%d bytes are taken by nothing", left)
	}
}

func TestMirroredAnswers(t *testing.T) {
	labelled := strings.Replace(request, `{`, `{"parameters":{"label":1},`, 1)
	for _, tc := range []struct {
		stable, candidate string
		want              stats.Shadow
	}{
		{"echo", "echo", stats.Shadow{Mirrored: 1, Samples: 1, Agree: 1}},
		{"echo", "empty", stats.Shadow{Mirrored: 1, Samples: 1, CandidateOnly: 1}},
		{"empty", "empty", stats.Shadow{Mirrored: 1, NoAnswer: 1, BothErr: 1}},
		{"echo", "panics", stats.Shadow{Mirrored: 1, Samples: 1, CandidateOnly: 1}},
		{"panics", "echo", stats.Shadow{Mirrored: 1, StableOnly: 1}},
	} {
		t.Run(tc.stable+" and "+tc.candidate, func(t *testing.T) {
			b := newBench(t, 0)
			doc := b.route(t, &routing.Shadow{Version: "2", Share: 1}, weightedBehaviour{"1", tc.stable, 1}, weightedBehaviour{"2", tc.candidate, 0})
			b.untilServing(t, doc.Revision)
			b.do(http.MethodPost, inferPath, labelled)
			b.until(t, func() bool { return b.Stats().At(doc.Revision).Shadow != nil })
			got := *b.Stats().At(doc.Revision).Shadow
			got.Version, got.Latency = "", stats.Histogram{}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestMetrics(t *testing.T) {
	b := newBench(t, 0)
	doc := b.route(t, nil, weightedBehaviour{"1", "echo", 1})
	b.untilServing(t, doc.Revision)
	b.do(http.MethodPost, inferPath, request)
	b.do(http.MethodPost, inferPath, strings.Replace(request, `{`, `{"parameters":{"label":152},`, 1))
	b.do(http.MethodPost, inferPath, strings.Replace(request, `{`, `{"parameters":{"label":0.5},`, 1))
	metrics := ask(b.Metrics(), http.MethodGet, "/metrics", "").Body.String()
	for _, want := range []string{
		`sluice_requests_total{outcome="ok",target="m",version="1"} 1`,
		`sluice_request_duration_seconds_bucket{target="m",version="1",le="+Inf"} 1`,
		`sluice_requests_total{outcome="label_refused",target="m",version="1"} 2`,
		`sluice_release_weight{target="m",version="1"} 1`,
		`sluice_release_ready{target="m",version="1"} 1`,
		`sluice_routing_revision{target="m"} 1`,
	} {
		if !strings.Contains(metrics, want) {
			t.Errorf("no %s in\n%s", want, metrics)
		}
	}
}

// A process that sees many releases has the metrics of those that are served, or were so lately.
func TestMetricsOfReleasesLongGoneEnd(t *testing.T) {
	b := newBench(t, 0)
	has := func(version int) bool {
		return strings.Contains(ask(b.Metrics(), http.MethodGet, "/metrics", "").Body.String(), fmt.Sprintf(`sluice_requests_total{outcome="ok",target="m",version="%d"} 1`, version))
	}
	const releases = keepRevisions + 2
	for version := 1; version <= releases; version++ {
		b.untilServing(t, b.route(t, nil, weightedBehaviour{fmt.Sprint(version), "echo", 1}).Revision)
		b.do(http.MethodPost, inferPath, request)
		b.counters.dropped(-1, fmt.Sprint(version)) // which counts in total only
	}
	for version := 1; version <= releases; version++ {
		if want := version > releases-keepRevisions; has(version) != want {
			t.Errorf("metrics of release %d: %v, want %v", version, !want, want)
		}
	}
	if _, shadows := b.counters.totals(); len(shadows) != keepRevisions {
		t.Errorf("%d releases are counted as shadows, want %d", len(shadows), keepRevisions)
	}
}

// TestDrain: a gateway that is to end says so to load balancers, and answers those who have not heard.
func TestDrain(t *testing.T) {
	b := newBench(t, time.Minute)
	b.untilServing(t, b.route(t, nil, weightedBehaviour{"1", "", 1}).Revision)
	const ready = "/v2/health/ready"
	if w := b.do(http.MethodGet, ready, ""); w.Code != http.StatusOK {
		t.Fatalf("before: %d", w.Code)
	}
	b.Drain()
	if w := b.do(http.MethodGet, ready, ""); w.Code != http.StatusServiceUnavailable {
		t.Errorf("ready: %d, want 503", w.Code)
	}
	if w := b.do(http.MethodPost, inferPath, request); w.Code != http.StatusOK {
		t.Errorf("a request: %d %s", w.Code, w.Body)
	}
}
