// Package interleave does one thing in the middle of another, at every place where they can meet: between two operations on a store.
package interleave

import (
	"context"
	"io"
	"iter"
	"sync/atomic"
	"testing"

	"github.com/sluiceml/sluice/store"
)

// Each runs test again and again on empty stores, in a folder and in memory. It gets the store, and a view of it on which other is called once,
// before the first operation in the first run, before the second in the next, and so on until a run makes fewer operations than that.
func Each(t *testing.T, test func(t *testing.T, s *store.Store, before func(other func()) *store.Store)) {
	t.Helper()
	for name, scheme := range map[string]string{"files": "file://", "memory": "mem://"} {
		t.Run(name, func(t *testing.T) {
			for met, at := true, int64(1); met; at++ {
				s, err := store.Open(t.Context(), scheme+t.TempDir())
				if err != nil {
					t.Fatal(err)
				}
				met = false
				test(t, s, func(other func()) *store.Store {
					return store.New(&driver{Driver: s.Driver(), at: at, other: func() { met = true; other() }}, s.URL())
				})
				if at == 1 && !met {
					t.Fatal("nothing was done with the store")
				}
			}
		})
	}
}

// driver calls other before its operation number at.
type driver struct {
	store.Driver
	at    int64
	count atomic.Int64
	other func()
}

func (d *driver) step() {
	if d.count.Add(1) == d.at {
		d.other()
	}
}

func (d *driver) Read(ctx context.Context, key string) (io.ReadCloser, error) {
	d.step()
	return d.Driver.Read(ctx, key)
}

func (d *driver) Write(ctx context.Context, key string, r io.Reader, opts store.WriteOptions) error {
	d.step()
	return d.Driver.Write(ctx, key, r, opts)
}

func (d *driver) Stat(ctx context.Context, key string) (store.Info, error) {
	d.step()
	return d.Driver.Stat(ctx, key)
}

func (d *driver) List(ctx context.Context, prefix string) iter.Seq2[store.Info, error] {
	d.step()
	return d.Driver.List(ctx, prefix)
}

func (d *driver) Delete(ctx context.Context, key string) error {
	d.step()
	return d.Driver.Delete(ctx, key)
}
