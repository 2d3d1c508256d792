package gateway

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluiceml/sluice/internal/artifact"
	"github.com/sluiceml/sluice/internal/poll"
	"github.com/sluiceml/sluice/internal/testing/memory"
	"github.com/sluiceml/sluice/serving/oip"
	"github.com/sluiceml/sluice/serving/routing"
	"github.com/sluiceml/sluice/serving/stats"
	"github.com/sluiceml/sluice/store"
)

// forwarder hands requests to a server of the test.
type forwarder struct {
	scripted
	url string
}

func (*forwarder) Inputs() []oip.TensorMetadata { return nil }

func (f *forwarder) Forward(ctx context.Context, r *http.Request, header http.Header, body []byte) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, r.Method, f.url+r.URL.Path, strings.NewReader(string(body)))
	if err != nil {
		return nil, err
	}
	req.Header = header
	return http.DefaultClient.Do(req)
}

// passing serves a server of the test behind a gateway.
func passing(t *testing.T, protocol Protocol, timeout time.Duration, server http.HandlerFunc) (g *Gateway, url string) {
	t.Helper()
	return passingWith(t, Options{Protocol: protocol, Timeout: timeout}, server)
}

func passingWith(t *testing.T, opts Options, server http.HandlerFunc) (g *Gateway, url string) {
	t.Helper()
	behind := httptest.NewServer(server)
	t.Cleanup(behind.Close)
	s, err := store.Open(t.Context(), "file://"+t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	opts.Store, opts.Target, opts.Logger = s, "m", slog.New(slog.DiscardHandler)
	opts.Open = func(context.Context, routing.Release, func(string)) (Upstream, error) {
		return &forwarder{scripted: scripted{onClose: func() {}}, url: behind.URL}, nil
	}
	g = New(opts)
	front := httptest.NewServer(g)
	t.Cleanup(func() {
		front.Close()
		if err := g.Close(); err != nil {
			t.Error(err)
		}
		http.DefaultClient.CloseIdleConnections()
	})
	target := NewTarget(s, "m", front.URL, "")
	model := artifact.Ref{Type: artifact.Model, Digest: "sha256:" + strings.Repeat("a", 64)}
	doc, release, err := target.Load(t.Context(), 0, routing.Release{Model: model, Run: "r", Step: "ship"}, nil)
	if err == nil {
		_, err = target.SetTraffic(t.Context(), doc.Revision, Split{Weights: map[string]float64{release.Version: 1}})
	}
	if err != nil {
		t.Fatal(err)
	}
	return g, front.URL
}

// counts waits until so many requests have been counted: a client may have its answer before.
func counts(t *testing.T, g *Gateway, requests int64) stats.Counts {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for range poll.Every(ctx, 5*time.Millisecond) {
		if c := g.Stats().At(2).Versions["1"]; c.Requests+c.ClientErrors+c.Left >= requests {
			return c
		}
	}
	t.Fatal("not counted in time")
	return stats.Counts{}
}

const (
	role  = `data: {"choices":[{"index":0,"delta":{"role":"assistant","content":""}}]}` + "\n\n"
	token = `data: {"choices":[{"index":0,"delta":{"content":"word "}}]}` + "\n\n"
	usage = `data: {"choices":[],"usage":{"completion_tokens":9}}` + "\n\n"
	done  = "data: [DONE]\n\n"
)

// TestStream: each event is with the client before the server makes the next one, and the times of tokens are counted.
func TestStream(t *testing.T) {
	seen := make(chan struct{})
	g, url := passing(t, OpenAI, time.Minute, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
		for _, event := range []string{role, token, token, usage, done} {
			fmt.Fprint(w, event)
			w.(http.Flusher).Flush()
			select {
			case <-seen:
			case <-r.Context().Done():
				return
			}
		}
	})
	resp, err := http.Post(url+"/v1/chat/completions", "application/json", strings.NewReader(`{"stream":true}`))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.Header.Get(ReleaseHeader) != "1" || !strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream") {
		t.Errorf("headers %v", resp.Header)
	}
	lines := bufio.NewReader(resp.Body)
	for _, event := range []string{role, token, token, usage, done} {
		var got strings.Builder
		for range 2 {
			line, err := lines.ReadString('\n')
			if err != nil {
				t.Fatal(err)
			}
			got.WriteString(line)
		}
		if got.String() != event {
			t.Fatalf("%q, want %q", got.String(), event)
		}
		seen <- struct{}{}
	}
	if rest, err := io.ReadAll(lines); err != nil || len(rest) > 0 {
		t.Errorf("%q, %v", rest, err)
	}
	c := counts(t, g, 1)
	if c.Requests != 1 || c.Failures != 0 || c.FirstToken.Count() != 1 || c.PerToken.Count() != 1 || c.Latency.Count() != 1 {
		t.Errorf("%+v", c)
	}
	if first, whole := c.FirstToken.Quantile(1), c.Latency.Quantile(1); first > whole {
		t.Errorf("the first token after %v, the last after %v", first, whole)
	}
}

// TestBrokenAnswers: what is no whole answer is a failure of the release, and the client sees that it is not whole.
func TestBrokenAnswers(t *testing.T) {
	for name, tc := range map[string]struct {
		serve  http.HandlerFunc
		status int
		whole  bool
		client int64 // mistakes of the client
	}{
		"an error in the stream": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			fmt.Fprint(w, token, `data: {"error":{"message":"out of memory"}}`, "\n\n", done)
		}, 200, true, 0},
		"a stream that breaks off": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			fmt.Fprint(w, token)
			w.(http.Flusher).Flush()
			panic(http.ErrAbortHandler)
		}, 200, false, 0},
		"a stream that stops": {func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			fmt.Fprint(w, token)
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		}, 200, false, 0},
		"no answer":   {func(_ http.ResponseWriter, r *http.Request) { _, _ = io.ReadAll(r.Body); <-r.Context().Done() }, 504, true, 0},
		"no model":    {func(w http.ResponseWriter, _ *http.Request) { http.NotFound(w, nil) }, 404, true, 1},
		"nonsense":    {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(400) }, 400, true, 1},
		"not allowed": {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(403) }, 403, true, 1},
		"not in time": {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(408) }, 408, true, 0},
		"overwhelmed": {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(429) }, 429, true, 0},
		"gave up":     {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(499) }, 499, true, 0},
	} {
		t.Run(name, func(t *testing.T) {
			g, url := passing(t, OpenAI, 300*time.Millisecond, tc.serve)
			resp, err := http.Post(url+"/v1/chat/completions", "application/json", strings.NewReader(`{}`))
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			if _, err := io.ReadAll(resp.Body); (err == nil) != tc.whole || resp.StatusCode != tc.status {
				t.Errorf("%s, %v; want %d", resp.Status, err, tc.status)
			}
			if c := counts(t, g, 1); c.Failures != 1-tc.client || c.Requests != 1-tc.client || c.ClientErrors != tc.client || c.FirstToken.Count() != 0 {
				t.Errorf("%+v", c)
			}
		})
	}
}

// TestClientLeaves: a client that goes away after the first token ends the work of the server, and hides nothing before.
func TestClientLeaves(t *testing.T) {
	left, ended := make(chan struct{}), make(chan struct{}, 2)
	g, url := passing(t, OpenAI, time.Minute, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprint(w, role)
		w.(http.Flusher).Flush()
		<-left
		fmt.Fprint(w, token)
		w.(http.Flusher).Flush()
		<-r.Context().Done()
		ended <- struct{}{}
	})
	ctx, leave := context.WithCancel(t.Context())
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url+"/v1/chat/completions", strings.NewReader(`{}`))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	close(left)
	if _, err := io.ReadFull(resp.Body, make([]byte, len(role+token))); err != nil { // else the gateway may see first that the client left
		t.Fatal(err)
	}
	leave()
	_ = resp.Body.Close()
	<-ended
	if c := counts(t, g, 1); c.Requests != 1 || c.Failures != 0 || c.FirstToken.Count() != 1 {
		t.Errorf("%+v", c)
	}
}

// TestClientsThatLeaveHoldNoPlace: clients that left before an answer keep nobody from being answered. The server goes on for them in a
// rollout, which learns that they were not answered in time, and else not.
func TestClientsThatLeaveHoldNoPlace(t *testing.T) {
	for _, trial := range []bool{false, true} {
		t.Run(fmt.Sprint(trial), func(t *testing.T) {
			var begun, ended atomic.Int64
			g, url := passing(t, OpenAI, 5*time.Second, func(_ http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/state" {
					return
				}
				_, _ = io.ReadAll(r.Body)
				begun.Add(1)
				<-r.Context().Done()
				ended.Add(1)
			})
			if trial {
				doc, err := routing.Current(t.Context(), g.opts.Store, "m")
				if err != nil {
					t.Fatal(err)
				}
				doc.Candidate = "1"
				if doc, err = routing.Set(t.Context(), g.opts.Store, doc.Revision, doc); err != nil {
					t.Fatal(err)
				}
				g.Poke()
				eventually(t, "the rollout has begun", func() bool { return g.State().Serving == doc.Revision })
			}
			ctx, leave := context.WithCancel(t.Context())
			var clients sync.WaitGroup
			for range maxInFlight {
				clients.Go(func() {
					req, err := http.NewRequestWithContext(ctx, http.MethodPost, url+"/v1/completions", strings.NewReader(`{}`))
					if err != nil {
						t.Error(err)
						return
					}
					if resp, err := http.DefaultClient.Do(req); err == nil {
						_ = resp.Body.Close()
						t.Error(resp.Status)
					}
				})
			}
			eventually(t, "all have begun", func() bool { return begun.Load() == maxInFlight })
			leave()
			clients.Wait()
			eventually(t, "another client is answered", func() bool {
				resp, err := http.Get(url + "/state")
				if err != nil {
					t.Fatal(err)
				}
				_ = resp.Body.Close()
				return resp.StatusCode == http.StatusOK
			})
			if trial && ended.Load() > 0 {
				t.Errorf("%d requests have ended with their clients", ended.Load())
			}
			eventually(t, "all have ended", func() bool { return ended.Load() == maxInFlight })
			count := func() (c stats.Counts) {
				for _, r := range g.Stats().Revisions {
					c = c.Plus(r.Versions["1"])
				}
				return c
			}
			eventually(t, "all are counted", func() bool {
				c := count()
				return trial && c.Failures == maxInFlight && c.Left == 0 || !trial && c.Failures == 0 && c.Left == maxInFlight
			})
			if n := len(g.abandoned) + len(g.places); n != 0 {
				t.Errorf("%d places are still taken", n)
			}
		})
	}
}

func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	for range poll.Every(ctx, 5*time.Millisecond) {
		if holds() {
			return
		}
	}
	t.Fatalf("not in time: %s", what)
}

// TestTokens: a stream is read however it is cut, and nothing in it can break the reading.
func TestTokens(t *testing.T) {
	const responses = `data: {"type":"response.output_text.delta","delta":"a"}` + "\r\n\r\n"
	stream := role + ": a comment\n" + token + "data: no JSON\n" + "data: [1]\n" + responses + `data: {"choices":[{"text":"a"}]}` + "\n\n" +
		"data: " + strings.Repeat("x", maxEvent) + "\n" + usage + done + "data: cut"
	for _, size := range []int{1, 7, len(stream)} {
		began := time.Now()
		read := &tokens{began: began}
		for at := 0; at < len(stream); at += size {
			read.read([]byte(stream[at:min(at+size, len(stream))]), began.Add(time.Duration(at)*time.Microsecond))
		}
		if read.seen != 3 || read.counted != 9 || read.failed {
			t.Errorf("in parts of %d: %d events, %d tokens, failed: %v", size, read.seen, read.counted, read.failed)
		}
		if cap(read.line) > 2*maxEvent {
			t.Errorf("%d bytes are held", cap(read.line))
		}
	}
}

// FuzzTokens: no stream breaks the reading.
func FuzzTokens(f *testing.F) {
	f.Add(role+token+usage+done, 3)
	f.Add("data: {\"choices\":[{\"delta\":null}],\"error\":\"\"}\n", 1)
	f.Fuzz(func(t *testing.T, stream string, size int) {
		now := time.Now()
		size = max(1, size)
		read := &tokens{began: now}
		for at := 0; at < len(stream); at += size {
			read.read([]byte(stream[at:min(at+size, len(stream))]), now)
			if size > len(stream) {
				break
			}
		}
		if first, ok := read.firstToken(); ok && first < 0 {
			t.Error(first)
		}
		if each, ok := read.perToken(); ok && each < 0 {
			t.Error(each)
		}
	})
}

func TestKeysOfJSON(t *testing.T) {
	for _, tt := range []struct{ body, key string }{
		{`{"user": "ada", "messages": []}`, "ada"},
		{`{"user": 7}`, "7"},
		{`{"user": true}`, "true"},
		{`{"user": null}`, ""},
		{`{"messages": [{"user": "ada"}]}`, ""},
		{`user=ada`, ""},
		{``, ""},
	} {
		if key, err := keyOfJSON("user", []byte(tt.body)); err != nil || key != tt.key {
			t.Errorf("%s: %q, %v, want %q", tt.body, key, err, tt.key)
		}
	}
	if _, err := keyOfJSON("user", []byte(`{"user": {"name": "ada"}}`)); oip.ErrorStatus(err) != http.StatusBadRequest {
		t.Errorf("an object as a key: %v", err)
	}
	// No field takes memory but the one that is wanted.
	fields := `"` + strings.Repeat(`a":1,"`, 500_000) + `b":2`
	for body, says := range map[string]string{
		`{` + fields + `,"user":"ada"}`:                              "",
		`{"user":[` + strings.Repeat("[],", 1_000_000) + `[]]}`:      "must be a string",
		`{"user":{` + strings.Replace(fields, "a", "é", 1000) + `}}`: "must be a string",
	} {
		var err error
		raw := []byte(body)
		if used := memory.Allocated(func() { _, err = keyOfJSON("user", raw) }); used > 1<<20 {
			t.Errorf("%.40s: %d bytes of memory", body, used)
		}
		if text := fmt.Sprint(err); says != "" && (!strings.Contains(text, says) || len(text) > 3000) || says == "" && err != nil {
			t.Errorf("%.40s: %.300v", body, err)
		}
	}
}

// A key's first answer is what the tests of its tokens count.
func TestTokensAreCountedByKey(t *testing.T) {
	c := newCounters()
	c.begin(3, map[string]float64{"1": 0.5, "2": 0.5}, &stats.Keyed{To: stats.Cells / 2, First: map[string]stats.Counts{}})
	began := time.Now()
	streamed := &tokens{began: began, first: began.Add(time.Second), last: began.Add(2 * time.Second), seen: 5}
	for range 3 {
		c.request(&assignment{release: &release{Release: routing.Release{Version: "2"}}, revision: 3, drawn: drawn{hash: 1, byKey: true}},
			requestOutcome{outcome: answered, tokens: streamed})
	}
	r := c.byRevision()[0]
	if all, first := r.Versions["2"], r.Keyed.First["2"]; all.FirstToken.Count() != 3 || first.FirstToken.Count() != 1 || first.PerToken.Count() != 1 {
		t.Errorf("counted %+v, by key %+v", all, first)
	}
}
