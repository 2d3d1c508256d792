package gateway

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/sluiceml/sluice/serving/oip"
	"github.com/sluiceml/sluice/serving/routing"
	"github.com/sluiceml/sluice/store"
)

// openerBench is a bench whose releases are opened by a function of the test, and whose sweeps are kept.
func openerBench(t *testing.T, open Opener, sweep func(context.Context, routing.Document) error) *bench {
	t.Helper()
	s, err := store.Open(t.Context(), "file://"+t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	b := &bench{store: s, release: make(chan struct{})}
	b.Gateway = New(Options{Store: s, Target: "m", Open: open, Sweep: sweep, Logger: slog.New(slog.DiscardHandler)})
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	})
	return b
}

func (b *bench) echo() Upstream {
	return &scripted{behaviour: "echo", release: b.release, onClose: func() {}}
}

// echoOnce opens a release once it may.
func (b *bench) echoOnce(ctx context.Context, ready <-chan struct{}) (Upstream, error) {
	select {
	case <-ready:
		return b.echo(), nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func TestAnOpeningThatIsNoLongerWantedIsStopped(t *testing.T) {
	var b *bench
	var stopped atomic.Bool
	ready := make(chan struct{})
	b = openerBench(t, func(ctx context.Context, r routing.Release, waiting func(string)) (Upstream, error) {
		<-ready
		if r.Version == "1" {
			return b.echo(), nil
		}
		waiting("a machine")
		<-ctx.Done()
		stopped.Store(true)
		return nil, ctx.Err()
	}, nil)
	close(ready)
	doc := b.route(t, nil, weightedBehaviour{"1", "", 1})
	b.untilServing(t, doc.Revision)
	doc = b.route(t, nil, weightedBehaviour{"1", "", 1}, weightedBehaviour{"2", "", 0})
	b.until(t, func() bool {
		s := b.State()
		return s.Serving == doc.Revision && s.Releases[1].Waiting == "a machine" && s.Releases[1].State == Loading
	})
	doc = b.route(t, nil, weightedBehaviour{"1", "", 1})
	b.untilServing(t, doc.Revision)
	b.until(t, stopped.Load)
}

// Who asks while the release that is to serve is being loaded is told so, and when to ask again; where nothing was released, that.
func TestAnswerWhileLoading(t *testing.T) {
	ready := make(chan struct{})
	var b *bench
	b = openerBench(t, func(ctx context.Context, _ routing.Release, waiting func(string)) (Upstream, error) {
		waiting("a machine")
		return b.echoOnce(ctx, ready)
	}, nil)
	asked := func() (message, again string) {
		w := b.do(http.MethodPost, inferPath, request)
		if w.Code != http.StatusServiceUnavailable {
			t.Fatalf("%d %s", w.Code, w.Body)
		}
		return w.Body.String(), w.Header().Get("Retry-After")
	}
	b.until(t, func() bool {
		message, again := asked()
		return strings.Contains(message, "no release of m serves yet") && again == ""
	})
	doc := b.route(t, nil, weightedBehaviour{"1", "", 1})
	b.until(t, func() bool {
		message, again := asked()
		return strings.Contains(message, "release 1 of m is being loaded, which waits for a machine") && again == "1"
	})
	close(ready)
	b.untilServing(t, doc.Revision)
}

// TestMetadataWhileLoading: until a release is loaded that is to have all traffic, as after a rollback, metadata are of the one that serves.
func TestMetadataWhileLoading(t *testing.T) {
	ready := make(chan struct{})
	var b *bench
	b = openerBench(t, func(ctx context.Context, r routing.Release, _ func(string)) (Upstream, error) {
		if r.Version == "1" {
			return b.echo(), nil
		}
		return b.echoOnce(ctx, ready)
	}, nil)
	doc := b.route(t, nil, weightedBehaviour{"1", "", 1})
	b.untilServing(t, doc.Revision)
	doc = b.route(t, nil, weightedBehaviour{"1", "", 0}, weightedBehaviour{"2", "", 1})
	b.until(t, func() bool { s := b.State(); return len(s.Releases) == 2 && s.Releases[1].State == Loading })
	for _, path := range []string{"/v2/models/m", "/v2/models/m/ready", "/v2/models/m/config"} {
		if w := b.do(http.MethodGet, path, ""); w.Code != http.StatusOK {
			t.Errorf("%s: %d %s", path, w.Code, w.Body)
		}
	}
	close(ready)
	b.untilServing(t, doc.Revision)
}

// TestSweepWaitsForWhatIsUnderWay: what serves a release that was dropped is removed when nobody waits for its answer.
func TestSweepWaitsForWhatIsUnderWay(t *testing.T) {
	var b *bench
	var answered atomic.Bool
	ready := make(chan struct{})
	swept := make(chan error, 10)
	b = openerBench(t, func(_ context.Context, r routing.Release, _ func(string)) (Upstream, error) {
		<-ready
		if r.Version == "2" {
			return b.echo(), nil
		}
		return &waitsAfterWarmUp{Upstream: b.echo(), release: b.release, asked: make(chan struct{})}, nil
	}, func(_ context.Context, doc routing.Document) error {
		if _, there := doc.Release("1"); there {
			return nil
		}
		if !answered.Load() {
			swept <- errors.New("swept while a request was under way")
		}
		swept <- nil
		return nil
	})
	close(ready)
	doc := b.route(t, nil, weightedBehaviour{"1", "", 1})
	b.untilServing(t, doc.Revision)
	b.Gateway.mu.Lock()
	asked := b.releases["1"].upstream.(*waitsAfterWarmUp).asked
	b.Gateway.mu.Unlock()
	var user sync.WaitGroup
	user.Go(func() {
		if w := b.do(http.MethodPost, inferPath, request); w.Code != http.StatusOK {
			t.Errorf("%d %s", w.Code, w.Body)
		}
	})
	<-asked
	doc = b.route(t, nil, weightedBehaviour{"2", "", 1})
	b.untilServing(t, doc.Revision)
	answered.Store(true)
	close(b.release)
	user.Wait()
	if err := <-swept; err != nil {
		t.Error(err)
	}
}

// waitsAfterWarmUp is an upstream that answers users only when it is let.
type waitsAfterWarmUp struct {
	Upstream
	release <-chan struct{}
	asked   chan struct{}
	asks    int
}

func (w *waitsAfterWarmUp) Infer(ctx context.Context, inputs []oip.Tensor) ([]oip.Tensor, error) {
	if w.asks++; w.asks > warmUps {
		close(w.asked)
		<-w.release
	}
	return w.Upstream.Infer(ctx, inputs)
}
