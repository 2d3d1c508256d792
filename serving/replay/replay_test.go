package replay

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/sluiceml/sluice/serving/oip"
	"github.com/sluiceml/sluice/serving/servingtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// server is an inference server that remembers what it was asked.
type server struct {
	mu        sync.Mutex
	asked     []string // "text label"
	status    func(n int) int
	onRequest func(n int)
}

func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodGet {
		oip.WriteJSON(w, http.StatusOK, oip.ModelMetadata{Inputs: []oip.TensorMetadata{{Name: "text", Datatype: oip.Bytes, Shape: []int64{-1}}}})
		return
	}
	req, err := servingtest.ReadRequest(w, r)
	if err != nil {
		oip.WriteError(w, err)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked = append(s.asked, fmt.Sprint(req.Inputs[0].Data.([]string)[0], " ", req.Parameters["label"]))
	if s.onRequest != nil {
		s.onRequest(len(s.asked))
	}
	status := http.StatusOK
	if s.status != nil {
		status = s.status(len(s.asked))
	}
	oip.WriteJSON(w, status, map[string]string{"error": "as told"})
}

func (s *server) requests() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.asked)
}

func options(t *testing.T, s *server) Options {
	t.Helper()
	listening := httptest.NewServer(s)
	t.Cleanup(listening.Close)
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "test"), 0o700); err != nil {
		t.Fatal(err)
	}
	for i, content := range []string{"{\"text\":\"a\",\"spam\":true}\n{\"text\":\"b\",\"spam\":false}\n", "{\"text\":\"c\",\"spam\":true}\n"} {
		if err := os.WriteFile(filepath.Join(dir, "test", fmt.Sprintf("part-%d.jsonl", i)), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return Options{URL: listening.URL, Model: "m", Dir: dir, Split: "test", Label: "spam", RPS: 500}
}

// run replays until the server was asked so many times.
func run(t *testing.T, s *server, o Options, asked int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	enough := errors.New("enough")
	ctx, stop := context.WithCancelCause(ctx)
	s.onRequest = func(n int) {
		if n == asked {
			stop(enough)
		}
	}
	if err := Run(ctx, o); !errors.Is(err, enough) {
		t.Fatal(err)
	}
}

func TestRowsAreSentOverAndOver(t *testing.T) {
	s := &server{}
	run(t, s, options(t, s), 50)
	times := map[string]int{}
	for _, asked := range s.requests()[:50] {
		times[asked]++
	}
	for _, row := range []string{"a true", "b false", "c true"} {
		if times[row] < 10 || len(times) != 3 { // 16 or 17, but those under way at once may overtake
			t.Errorf("asked %v", times)
		}
	}
}

func TestAReplayGoesOnWhereItWas(t *testing.T) {
	for _, start := range []int64{0, 1, 3, 3001} {
		want := []string{"a true", "b false", "c true"}[orderOf(0, start/3, 3)[start%3]]
		s := &server{}
		o := options(t, s)
		o.Start, o.RPS = start, 5
		var first int64
		o.Progress = func(sent int64) {
			if first == 0 {
				first = sent
			}
		}
		run(t, s, o, 1)
		if got := s.requests(); got[0] != want || first != start+1 {
			t.Errorf("from %d: %v asked, %s wanted first; progress begins at %d", start, got, want, first)
		}
	}
}

// TestPassesAreShuffled: every pass has all rows, each in an order of its own that the seed repeats.
func TestPassesAreShuffled(t *testing.T) {
	const n = 100
	first := orderOf(1, 0, n)
	for name, other := range map[string][]int{"the next pass": orderOf(1, 1, n), "another seed": orderOf(2, 0, n), "the dataset": slices.Sorted(slices.Values(first))} {
		if slices.Equal(first, other) {
			t.Errorf("%s has the same order", name)
		}
		if diff := cmp.Diff(slices.Sorted(slices.Values(first)), slices.Sorted(slices.Values(other))); diff != "" {
			t.Errorf("%s has other rows (-want +got):\n%s", name, diff)
		}
	}
	if !slices.Equal(first, orderOf(1, 0, n)) {
		t.Error("the seed does not repeat the order")
	}
}

func TestTheRateIsKept(t *testing.T) {
	s := &server{}
	o := options(t, s)
	o.RPS = 200
	start := time.Now()
	run(t, s, o, 100)
	if took := time.Since(start); took < 450*time.Millisecond {
		t.Errorf("100 rows at 200 a second took %v", took)
	}
}

func TestFailuresOfTheModelDoNotEndIt(t *testing.T) {
	s := &server{status: func(int) int { return http.StatusInternalServerError }}
	run(t, s, options(t, s), 20)
}

func TestEnds(t *testing.T) {
	refusing := &server{status: func(int) int { return http.StatusBadRequest }}
	for name, tc := range map[string]struct {
		server *server
		change func(*Options)
		want   string
	}{
		"refused rows": {refusing, func(*Options) {}, "as told"},
		"no column":    {&server{}, func(o *Options) { o.Label = "answer" }, `no label column "answer"`},
		"no split":     {&server{}, func(o *Options) { o.Split = "dev" }, "it has: test"},
		"no rate":      {&server{}, func(o *Options) { o.RPS = 0 }, "per second"},
	} {
		t.Run(name, func(t *testing.T) {
			o := options(t, tc.server)
			tc.change(&o)
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			if err := Run(ctx, o); !errors.Is(err, ErrUnfit) || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("%v, want ErrUnfit with %q", err, tc.want)
			}
		})
	}
}

func TestAServerThatIsNotThereYet(t *testing.T) {
	o := options(t, &server{})
	o.URL = "http://127.0.0.1:1"
	ctx, cancel := context.WithTimeout(t.Context(), 600*time.Millisecond)
	defer cancel()
	if err := Run(ctx, o); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v, want to wait for it", err)
	}
}

func TestProbe(t *testing.T) {
	s := &server{}
	if err := Probe(t.Context(), options(t, s), "2"); err != nil {
		t.Error(err)
	}
	if diff := cmp.Diff([]string{"a true", "b false", "c true"}, s.requests()); diff != "" {
		t.Errorf("asked (-want +got):\n%s", diff)
	}
	failing := &server{status: func(int) int { return http.StatusInternalServerError }}
	if err := Probe(t.Context(), options(t, failing), "2"); err != nil {
		t.Errorf("a model that fails: %v; it is the rollout's to count", err)
	}
	refusing := &server{status: func(n int) int { return map[bool]int{true: 200, false: 400}[n < 2] }}
	err := Probe(t.Context(), options(t, refusing), "2")
	if !errors.Is(err, ErrUnfit) || !strings.Contains(err.Error(), "row 2 of split test: m rejects it: as told") {
		t.Errorf("%v, want ErrUnfit", err)
	}
	answering := options(t, &server{})
	answering.Check = func([]oip.Tensor) error { return errors.New("2.5 is no class") }
	err = Probe(t.Context(), answering, "2")
	if !errors.Is(err, ErrIncomparable) || !strings.Contains(err.Error(), "2.5 is no class (row 1 of split test)") {
		t.Errorf("answers that cannot be compared: %v, want ErrIncomparable", err)
	}
	unlabelled := options(t, &server{})
	for i, content := range []string{`{"text":"a","spam":null}`, `{"text":"b","spam":""}`} {
		if err := os.WriteFile(filepath.Join(unlabelled.Dir, "test", fmt.Sprintf("part-%d.jsonl", i)), []byte(content+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	err = Probe(t.Context(), unlabelled, "2")
	if !errors.Is(err, ErrUnfit) || !strings.Contains(err.Error(), `none of the first 2 rows of split test has a value in its label column "spam"`) {
		t.Errorf("no labels: %v, want ErrUnfit", err)
	}
}

// TestProbeLooksAtAllRows: the first rows are sent, and what is wrong with a later one is said before any traffic all the same.
func TestProbeLooksAtAllRows(t *testing.T) {
	for last, want := range map[string]string{
		`{"txt":"a","spam":true}`:     `row 61 of split test: the model needs a column "text"`,
		`{"text":"a"}`:                `row 61 of split test: it has no label column "spam"`,
		`{"text":"a","spam":[1]}`:     "row 61 of split test: parameters.label is [1]",
		`{"text":"a","spam":"maybe"}`: "", // the server does not describe its outputs
	} {
		s := &server{}
		o := options(t, s)
		lines := strings.Repeat("{\"text\":\"a\",\"spam\":true}\n", 57) + last + "\n"
		if err := os.WriteFile(filepath.Join(o.Dir, "test", "part-2.jsonl"), []byte(lines), 0o600); err != nil {
			t.Fatal(err)
		}
		err := Probe(t.Context(), o, "2")
		if (err == nil) != (want == "") || err != nil && (!errors.Is(err, ErrUnfit) || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, want %q", last, err, want)
		}
		if n := len(s.requests()); n > probed {
			t.Errorf("%d rows were sent, want at most %d", n, probed)
		}
	}
}

// A server with another's certificate, or one that does not let the replay in, is not asked again, and says what is wrong.
func TestRunsAreRefused(t *testing.T) {
	var authorization atomic.Value
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		authorization.Store(r.Header.Get("Authorization"))
		oip.WriteError(w, &oip.Error{Status: http.StatusUnauthorized, Message: "the key is not one of the target m"})
	}))
	defer server.Close()
	trusted := server.Client().Transport.(*http.Transport).TLSClientConfig.Clone()
	other := trusted.Clone()
	other.ServerName = "shop.test"
	for _, tc := range []struct {
		name string
		tls  *tls.Config
		says string
	}{
		{"the certificate is for another name", other, "not for shop.test"},
		{"an authority that nobody knows", nil, "an authority that is not known here"},
		{"another key", trusted, "the key is not one of the target m"},
	} {
		o := Options{URL: server.URL, Model: "m", TLS: tc.tls, RPS: 1, Authorization: "Bearer k", AlwaysAuthorized: true}
		began := time.Now()
		for name, err := range map[string]error{"run": Run(t.Context(), o), "probe": Probe(t.Context(), o, "1")} {
			if !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), tc.says) {
				t.Errorf("%s, %s: %v, want ErrRefused with %q", tc.name, name, err, tc.says)
			}
		}
		if took := time.Since(began); took > silenceMax {
			t.Errorf("%s: it took %v", tc.name, took)
		}
	}
	if authorization.Load() != "Bearer k" {
		t.Errorf("the key was sent as %v", authorization.Load())
	}
}
