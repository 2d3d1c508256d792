package gateway

import (
	"context"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sluiceml/sluice/internal/artifact"
	"github.com/sluiceml/sluice/serving/oip"
	"github.com/sluiceml/sluice/serving/routing"
	"github.com/sluiceml/sluice/store"
)

// picky is an upstream that keeps what it is asked and refuses zeros, as made-up inputs have, and fails for 5.
type picky struct {
	Upstream
	mu     sync.Mutex
	asked  []float32
	closed atomic.Bool
}

func (p *picky) Infer(ctx context.Context, inputs []oip.Tensor) ([]oip.Tensor, error) {
	value := inputs[0].Data.([]float32)[0]
	p.mu.Lock()
	p.asked = append(p.asked, value)
	p.mu.Unlock()
	switch value {
	case 0:
		return nil, oip.Invalid("there is no 0")
	case 5:
		panic("out of bounds")
	}
	return p.Upstream.Infer(ctx, inputs)
}

func (p *picky) Close() error {
	p.closed.Store(true)
	return p.Upstream.Close()
}

// TestWarmUpWithRows: a model is asked the rows that its release names, one by one and then at once. What it refuses is an error before it
// gets traffic.
func TestWarmUpWithRows(t *testing.T) {
	many, first := "", make([]float32, warmUpRows)
	for i := range first {
		first[i] = 1
	}
	for range 2 * warmUpRows {
		many += `{"x":[1]}` + "\n"
	}
	for _, tc := range []struct {
		name, rows string
		weight     float64
		want       []float32
		err        string
	}{
		{"two rows", `{"x":[1]}` + "\n" + `{"x":[2], "label": 7}`, 0, []float32{1, 2, 1, 2, 1, 1, 2}, ""},
		{"many rows", many, 0, slices.Concat(first, first), ""},
		{"a row that fails", `{"x":[5]}`, 0, []float32{5, 5, 5, 5, 5, 5}, ""},
		{"a row that is refused", `{"x":[1]}` + "\n" + `{"x":[0]}`, 0, []float32{1, 0}, "load release 1: warm-up: row 2 of split test: the model refuses it: there is no 0"},
		{"a row that does not fit", `{"y":[1]}`, 0, nil, `load release 1: warm-up: row 1 of split test: the model needs a column "x"; the row has: y`},
		{"a release that serves already", `{"x":[0]}`, 1, []float32{0, 0}, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var b *bench
			var model *picky
			b = openerBench(t, func(context.Context, routing.Release, func(string)) (Upstream, error) {
				model = &picky{Upstream: &scripted{behaviour: "echo", onClose: func() {}}}
				return model, nil
			}, nil)
			rows := b.dataset(t, tc.rows)
			doc := routing.Document{Target: "m", Versions: 1, Candidate: "1", Releases: []routing.Release{{
				Version: "1", Model: rows, Weight: tc.weight, WarmUp: routing.RowsOf(rows, "test"),
			}}}
			if _, err := routing.Set(t.Context(), b.store, 0, doc); err != nil {
				t.Fatal(err)
			}
			b.Poke()
			b.until(t, func() bool { s := b.State().Releases; return len(s) == 1 && s[0].State != Loading })
			status := b.State().Releases[0]
			if !strings.HasPrefix(status.Error, tc.err) || (status.State == Failed) != (tc.err != "") || model.closed.Load() != (tc.err != "") {
				t.Errorf("the release is %+v, closed %v, want the error %q", status, model.closed.Load(), tc.err)
			}
			model.mu.Lock()
			defer model.mu.Unlock()
			if n := len(model.asked); n > warmUps { // those at once come in any order
				slices.Sort(model.asked[max(warmUps, n-warmUpRows):])
			}
			if diff := cmp.Diff(tc.want, model.asked); diff != "" {
				t.Errorf("asked (-want +got):\n%s", diff)
			}
		})
	}
}

// dataset stores rows as the split test.
func (b *bench) dataset(t *testing.T, rows string) artifact.Ref {
	t.Helper()
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "test"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "test", "0.jsonl"), []byte(rows), 0o600); err != nil {
		t.Fatal(err)
	}
	ref, err := b.store.PutTree(t.Context(), artifact.Dataset, dir, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	return ref
}

// TestWarmUpWithoutItsRows: rows that cannot be read any more, or that a model refuses now, are no reason not to load what was loaded before,
// and those that cannot be read are none for a candidate.
func TestWarmUpWithoutItsRows(t *testing.T) {
	gone := artifact.Ref{Type: artifact.Dataset, Digest: "sha256:" + strings.Repeat("0", 64)}
	for _, tc := range []struct {
		name, candidate, stable string
		first, second           float64 // the weights
		shadow                  *routing.Shadow
		rows                    string // of release 1, empty for a dataset that is gone
	}{
		{name: "serves, gone", first: 1},
		{name: "in reserve, gone", second: 1},
		{name: "in reserve, refused", second: 1, rows: `{"x":[0]}`},
		{name: "in reserve, misfits", second: 1, rows: `{"y":[0]}`},
		{name: "stable beside a candidate with all traffic, refused", candidate: "2", stable: "1", second: 1, rows: `{"x":[0]}`},
		{name: "shadow, refused", candidate: "1", stable: "2", second: 1, shadow: &routing.Shadow{Version: "1", Share: 1}, rows: `{"x":[0]}`},
		{name: "candidate, gone", candidate: "1", stable: "2", second: 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var b *bench
			b = openerBench(t, func(context.Context, routing.Release, func(string)) (Upstream, error) {
				return &picky{Upstream: b.echo()}, nil
			}, nil)
			rows := gone
			if tc.rows != "" {
				rows = b.dataset(t, tc.rows)
			}
			doc := routing.Document{
				Target: "m", Versions: 2, Candidate: tc.candidate, Stable: tc.stable, Shadow: tc.shadow, Releases: []routing.Release{
					{Version: "1", Model: gone, Weight: tc.first, WarmUp: routing.RowsOf(rows, "test")},
					{Version: "2", Model: gone, Weight: tc.second},
				},
			}
			if _, err := routing.Set(t.Context(), b.store, 0, doc); err != nil {
				t.Fatal(err)
			}
			b.Poke()
			b.until(t, func() bool {
				s := b.State().Releases
				return len(s) == 2 && s[0].State != Loading && s[1].State != Loading
			})
			if status := b.State().Releases[0]; status.State != Ready {
				t.Errorf("the release is %+v", status)
			}
		})
	}
}

// TestRefusedReleaseGetsTraffic: a candidate that failed for its rows is loaded when the document gives it traffic all the same.
func TestRefusedReleaseGetsTraffic(t *testing.T) {
	var b *bench
	b = openerBench(t, func(context.Context, routing.Release, func(string)) (Upstream, error) {
		return &picky{Upstream: b.echo()}, nil
	}, nil)
	rows := b.dataset(t, `{"x":[0]}`)
	doc := routing.Document{Target: "m", Versions: 1, Candidate: "1", Releases: []routing.Release{
		{Version: "1", Model: rows, WarmUp: routing.RowsOf(rows, "test")},
	}}
	doc, err := routing.Set(t.Context(), b.store, 0, doc)
	if err != nil {
		t.Fatal(err)
	}
	b.Poke()
	b.until(t, func() bool { s := b.State().Releases; return len(s) == 1 && s[0].State == Failed })
	doc.Candidate, doc.Releases[0].Weight = "", 1
	if doc, err = routing.Set(t.Context(), b.store, doc.Revision, doc); err != nil {
		t.Fatal(err)
	}
	b.until(t, func() bool { return b.State().Revision == doc.Revision })
	b.Gateway.mu.Lock()
	b.releases["1"].failedAt = b.releases["1"].failedAt.Add(-retryAfter) // instead of waiting
	b.Gateway.mu.Unlock()
	b.Poke()
	b.until(t, func() bool { return b.State().Releases[0].State == Ready })
}

// timed notes how much time there is left for reading a blob and for an inference.
type timed struct {
	store.Driver
	Upstream
	reading, asking *[]time.Duration
}

func left(ctx context.Context) time.Duration {
	deadline, _ := ctx.Deadline()
	return time.Until(deadline)
}

func (d timed) Read(ctx context.Context, key string) (io.ReadCloser, error) {
	if strings.HasPrefix(key, "blobs/") {
		*d.reading = append(*d.reading, left(ctx))
	}
	return d.Driver.Read(ctx, key)
}

func (d timed) Infer(ctx context.Context, inputs []oip.Tensor) ([]oip.Tensor, error) {
	*d.asking = append(*d.asking, left(ctx))
	return d.Upstream.Infer(ctx, inputs)
}

func (d timed) Close() error { return d.Upstream.Close() }

// TestWarmUpOfAShortTimeout: the timeout of one inference bounds neither the reading of rows nor the asking of all of them.
func TestWarmUpOfAShortTimeout(t *testing.T) {
	s, err := store.Open(t.Context(), "file://"+t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	b := &bench{store: s}
	rows := b.dataset(t, `{"x":[1]}`)
	on := timed{Driver: s.Driver(), Upstream: b.echo(), reading: new([]time.Duration), asking: new([]time.Duration)}
	b.Gateway = New(Options{
		Store: store.New(on, s.URL()), Target: "m", Timeout: time.Millisecond, Logger: slog.New(slog.DiscardHandler),
		Open: func(context.Context, routing.Release, func(string)) (Upstream, error) { return on, nil },
	})
	doc := routing.Document{Target: "m", Versions: 1, Candidate: "1", Releases: []routing.Release{
		{Version: "1", Model: rows, WarmUp: routing.RowsOf(rows, "test")},
	}}
	if _, err := routing.Set(t.Context(), s, 0, doc); err != nil {
		t.Fatal(err)
	}
	b.Poke()
	b.until(t, func() bool { r := b.State().Releases; return len(r) == 1 && r[0].State != Loading })
	if err := b.Close(); err != nil {
		t.Error(err)
	}
	if len(*on.reading) != 2 || len(*on.asking) != warmUps+1 { // the list of files and a file; one by one and all at once
		t.Errorf("%d blobs were read and %d rows asked", len(*on.reading), len(*on.asking))
	}
	for _, left := range slices.Concat(*on.reading, *on.asking) {
		if left < rowsTime/2 {
			t.Errorf("it has %v", left)
		}
	}
}
