package gateway

import (
	"context"
	"fmt"
	"io"
	"iter"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluiceml/sluice/serving/routing"
	"github.com/sluiceml/sluice/store"
)

// partition is a driver that can be cut off.
type partition struct {
	store.Driver
	cut atomic.Bool
}

func (p *partition) failed() error {
	if p.cut.Load() {
		return fmt.Errorf("no way to the store: %w", store.ErrUnavailable)
	}
	return nil
}

func (p *partition) Read(ctx context.Context, key string) (io.ReadCloser, error) {
	if err := p.failed(); err != nil {
		return nil, err
	}
	return p.Driver.Read(ctx, key)
}

func (p *partition) Write(ctx context.Context, key string, r io.Reader, o store.WriteOptions) error {
	if err := p.failed(); err != nil {
		return err
	}
	return p.Driver.Write(ctx, key, r, o)
}

func (p *partition) List(ctx context.Context, prefix string) iter.Seq2[store.Info, error] {
	if err := p.failed(); err != nil {
		return func(yield func(store.Info, error) bool) { yield(store.Info{}, err) }
	}
	return p.Driver.List(ctx, prefix)
}

// TestLeaseRunsOut: a gateway that cannot read the document serves only the stable release of a rollout after the lease, and what it then
// answers is no part of the comparison. When it reads again, it serves what the document says by then.
func TestLeaseRunsOut(t *testing.T) {
	b := newBench(t, time.Minute)
	doc := b.route(t, nil, weightedBehaviour{"1", "", 0.5}, weightedBehaviour{"2", "other", 0.5})
	b.untilServing(t, doc.Revision)
	doc.Candidate, doc.Stable = "2", "1"
	doc, err := routing.Set(t.Context(), b.store, doc.Revision, doc)
	if err != nil {
		t.Fatal(err)
	}
	b.untilServing(t, doc.Revision)
	answers := func(n int) map[string]int {
		by := map[string]int{}
		for range n {
			w := b.do(http.MethodPost, inferPath, request)
			by[fmt.Sprint(w.Code, " ", w.Header().Get(ReleaseHeader))]++
		}
		return by
	}
	if by := answers(60); by["200 1"] == 0 || by["200 2"] == 0 {
		t.Fatalf("answers %v, want some of both", by)
	}
	b.cable.cut.Store(true)
	b.until(t, func() bool { return b.State().Error != "" })
	b.until(t, func() bool {
		b.Gateway.mu.RLock()
		defer b.Gateway.mu.RUnlock()
		return b.lapsed()
	})
	counted := b.Stats().At(doc.Revision).Versions
	if by := answers(60); by["200 1"] != 60 {
		t.Errorf("answers %v, want all of the stable release", by)
	}
	if w := b.do(http.MethodPost, inferPath, request, VersionHeader, "2"); w.Code != http.StatusServiceUnavailable || !strings.Contains(w.Body.String(), "serves release 1 only") {
		t.Errorf("the candidate by name: %d %s", w.Code, w.Body)
	}
	if now := b.Stats().At(doc.Revision).Versions["1"].Requests; now != counted["1"].Requests {
		t.Errorf("%d answers without the candidate's chance were counted", now-counted["1"].Requests)
	}
	back := doc
	back.Candidate, back.Stable = "", ""
	back.Releases = doc.Releases[:1]
	back.Releases[0].Weight = 1
	if back, err = routing.Set(t.Context(), b.store, doc.Revision, back); err != nil {
		t.Fatal(err)
	}
	again := back // twice within a poll
	if again, err = routing.Set(t.Context(), b.store, back.Revision, again); err != nil {
		t.Fatal(err)
	}
	b.cable.cut.Store(false)
	b.untilServing(t, again.Revision)
	b.until(t, func() bool { // and what it counted is not lost, nor there twice
		reports, err := routing.ListReports(t.Context(), b.store, "m")
		if err != nil || len(reports) != 1 {
			t.Fatal(len(reports), err)
		}
		v := reports[0].At(doc.Revision).Versions
		return reports[0].Read == again.Revision && v["1"].Requests == counted["1"].Requests && v["2"].Requests == counted["2"].Requests
	})
}

// TestAge: a machine that slept, whose monotonic clock stood still, has no lease left; a clock that was set back does not lengthen one.
func TestAge(t *testing.T) {
	now := time.Now()
	slept := now.Add(time.Second).Round(0).Add(time.Hour) // a wall clock reading only
	if a := age(now, slept); a < time.Hour {
		t.Errorf("after an hour's sleep the age is %v", a)
	}
	if a := age(now, now.Add(6*time.Second)); a != 6*time.Second {
		t.Errorf("age %v, want 6s", a)
	}
}
