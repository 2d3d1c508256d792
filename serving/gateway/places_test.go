package gateway

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/sluiceml/sluice/internal/poll"
	"github.com/sluiceml/sluice/serving/routing"
)

func TestPlacesOfAShare(t *testing.T) {
	for weight, want := range map[float64]int64{0.01: 22, 0.1: 63, 0.5: 187, 0.9: 256, 1: 256} {
		if got := placesOf(weight); got != want {
			t.Errorf("a release with %v of the traffic may have %d places, want %d", weight, got, want)
		}
	}
}

// try makes the second of two releases, with these behaviours, the candidate of a rollout, with a tenth of the traffic.
func (b *bench) try(t *testing.T, stable, candidate string, ready func()) routing.Document {
	t.Helper()
	doc := b.route(t, nil, weightedBehaviour{"1", stable, 1}, weightedBehaviour{"2", candidate, 0})
	ready()
	b.until(t, func() bool { s := b.State(); return len(s.Releases) == 2 && s.Releases[1].State == Ready })
	doc.Stable, doc.Candidate = "1", "2"
	doc.Releases[0].Weight, doc.Releases[1].Weight = 0.9, 0.1
	doc, err := routing.Set(t.Context(), b.store, doc.Revision, doc)
	if err != nil {
		t.Fatal(err)
	}
	b.untilServing(t, doc.Revision)
	return doc
}

// A candidate that does not answer keeps the places of its share, and all other requests are answered by the stable release. There are as
// many clients as places, so that those who find none do so because of the candidate.
func TestASlowCandidateLeavesTheStableReleaseItsPlaces(t *testing.T) {
	b := newBench(t, time.Minute)
	doc := b.try(t, "echo", "waits", func() {
		b.until(t, func() bool { return b.opened() == 2 })
		for range warmUps {
			b.release <- struct{}{}
		}
	})
	answer := sync.OnceFunc(func() { close(b.release) })
	defer answer()
	var answers, refusals, ended atomic.Int64
	finished := make(chan struct{}, maxInFlight)
	for range maxInFlight {
		go func() {
			defer func() { finished <- struct{}{} }()
			defer ended.Add(1)
			for range 30 {
				w := b.do(http.MethodPost, inferPath, request)
				switch by := w.Header().Get(ReleaseHeader); {
				case by == "1" && w.Code == http.StatusOK:
					answers.Add(1)
				case by == "2" && w.Code == http.StatusTooManyRequests && w.Header().Get("Retry-After") == "1":
					refusals.Add(1)
				case by == "2" && w.Code == http.StatusOK:
					return // it has waited until the end
				default:
					t.Errorf("release %q answers %d %s", by, w.Code, w.Body)
				}
			}
		}()
	}
	held := placesOf(0.1)
	b.until(t, func() bool { return ended.Load() == maxInFlight-held })
	versions := b.Stats().At(doc.Revision).Versions
	if c := versions["1"]; c.Requests != answers.Load() || c.Failures != 0 {
		t.Errorf("of the stable release %d requests and %d failures are counted, want %d and none", c.Requests, c.Failures, answers.Load())
	}
	if c := versions["2"]; c.Failures == 0 || c.Failures != refusals.Load() || c.Requests != c.Failures || c.Latency.Count() != 0 {
		t.Errorf("of the candidate %d requests are counted, %d failures and %d latencies; it was %d times too slow", c.Requests, c.Failures, c.Latency.Count(), refusals.Load())
	}
	doc, err := routing.Set(t.Context(), b.store, doc.Revision, doc)
	if err != nil {
		t.Fatal(err)
	}
	b.untilServing(t, doc.Revision)
	taken := b.table.shares[0].taken
	if got := taken.Load(); got != held {
		t.Errorf("after a change of the routing the candidate holds %d places, want %d", got, held)
	}
	answer()
	for range maxInFlight {
		<-finished
	}
	if got := taken.Load(); got != 0 {
		t.Errorf("when all have been answered, the candidate holds %d places", got)
	}
}

// However a request comes, it is a failure of its release if that has no place for it, unless the sender chose it. The release that
// was to get a copy of it is let go of, or the gateway could not be closed.
func TestARequestWithoutAPlaceIsAFailureOfItsRelease(t *testing.T) {
	fill := func(g *Gateway) {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.table.shares[0].places = 0
	}
	b := newBench(t, time.Minute)
	doc := b.route(t, &routing.Shadow{Version: "2", Share: 1}, weightedBehaviour{"1", "echo", 1}, weightedBehaviour{"2", "echo", 0})
	b.untilServing(t, doc.Revision)
	fill(b.Gateway)
	if w := b.do(http.MethodPost, inferPath, request); w.Code != http.StatusTooManyRequests || w.Header().Get("Retry-After") != "1" {
		t.Errorf("over REST: %d %s", w.Code, w.Body)
	}
	ctx := context.WithValue(t.Context(), arrivedKey{}, arrived{header: http.Header{}, done: func() {}})
	if _, err := (service{g: b.Gateway}).ModelInfer(ctx, typed(1)); status.Code(err) != codes.ResourceExhausted {
		t.Errorf("over gRPC: %v", err)
	}
	if w := b.do(http.MethodPost, inferPath, request, VersionHeader, "1"); w.Code != http.StatusOK {
		t.Errorf("by name: %d %s", w.Code, w.Body)
	}
	if w := b.do(http.MethodPost, inferPath, strings.Replace(request, `{`, `{"parameters":{"label":152},`, 1)); w.Code != http.StatusBadRequest {
		t.Errorf("with a label that is no class: %d %s", w.Code, w.Body)
	}
	if c := b.Stats().At(doc.Revision).Versions["1"]; c.Requests != 2 || c.Failures != 2 {
		t.Errorf("counts %+v", c)
	}

	g, url := passing(t, HTTP, time.Minute, func(http.ResponseWriter, *http.Request) { t.Error("it was passed on") })
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	for range poll.Every(ctx, time.Millisecond) {
		if g.State().Serving == 2 {
			break
		}
	}
	fill(g)
	resp, err := http.Post(url+"/anything", "application/json", strings.NewReader("{}"))
	if err != nil {
		t.Fatal(err)
	}
	if got := read(t, resp); got.status != http.StatusTooManyRequests || got.header.Get(ReleaseHeader) != "1" {
		t.Errorf("passed on: %+v", got)
	}
	if c := counts(t, g, 1); c.Failures != 1 {
		t.Errorf("counts %+v", c)
	}
}
