package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"
)

// clocked is a driver whose objects are as old as a clock says that only a test moves.
type clocked struct {
	Driver
	*ages
	// before is called before every operation, with its number.
	before func(n int64)
	count  atomic.Int64
}

// ages are the times of objects.
type ages struct {
	mu       sync.Mutex
	now      time.Time
	modified map[string]time.Time
}

func (c *clocked) step() {
	if n := c.count.Add(1); c.before != nil {
		c.before(n)
	}
}

func (c *ages) time() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *ages) advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

func (c *ages) aged(info Info) Info {
	c.mu.Lock()
	defer c.mu.Unlock()
	info.Modified = c.modified[info.Key]
	return info
}

func (c *clocked) Read(ctx context.Context, key string) (io.ReadCloser, error) {
	c.step()
	return c.Driver.Read(ctx, key)
}

func (c *clocked) Write(ctx context.Context, key string, r io.Reader, opts WriteOptions) error {
	c.step()
	c.mu.Lock()
	defer c.mu.Unlock()
	err := c.Driver.Write(ctx, key, r, opts)
	if err == nil {
		c.modified[key] = c.now
	}
	return err
}

func (c *clocked) Stat(ctx context.Context, key string) (Info, error) {
	c.step()
	info, err := c.Driver.Stat(ctx, key)
	return c.aged(info), err
}

func (c *clocked) List(ctx context.Context, prefix string) iter.Seq2[Info, error] {
	c.step()
	return func(yield func(Info, error) bool) {
		for info, err := range c.Driver.List(ctx, prefix) {
			if !yield(c.aged(info), err) {
				return
			}
		}
	}
}

func (c *clocked) Delete(ctx context.Context, key string) error {
	c.step()
	return c.Driver.Delete(ctx, key)
}

// openClocked opens an empty store whose clock is a test's.
func openClocked(t *testing.T, address string) (*Store, *clocked) {
	t.Helper()
	s, err := Open(t.Context(), address)
	if err != nil {
		t.Fatal(err)
	}
	c := &clocked{Driver: s.driver, ages: &ages{now: time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC), modified: map[string]time.Time{}}}
	s = New(c, address)
	s.now = c.time
	return s, c
}

const grace = 24 * time.Hour

// world is a store in use: holders that have a digest and will write it into a record, and records that have it.
type world struct {
	*Store
	clock *clocked
	ctx   context.Context //nolint:containedctx // that of one test
	// records are those in the store, each with the content it refers to; held is what is about to become a record, and since when.
	records map[string]string
	held    map[string]holding
	count   int
	// garbage is what the collector found, and with which time, if it has looked and not deleted yet.
	garbage []Info
	before  time.Time
	looked  bool
}

type holding struct {
	content string
	since   time.Time
}

func (w *world) put(content string) (string, error) {
	digest, _, err := w.PutBlob(w.ctx, strings.NewReader(content))
	return digest, err
}

func (w *world) check(t *rapid.T) {
	need := func(who, content string) {
		digest, _, err := digestOf(w.ctx, strings.NewReader(content))
		if err != nil {
			t.Fatal(err)
		}
		if there, err := w.HasBlob(w.ctx, digest); !there || err != nil {
			t.Fatalf("%s needs %q, and it is gone: %v", who, content, err)
		}
	}
	for key, content := range w.records {
		need(key, content)
	}
	for who, h := range w.held {
		need(who, h.content)
	}
}

// TestNothingNeededIsSwept: whatever is stored, stored again, taken over from a record that is removed meanwhile, published and removed while
// garbage is looked for and deleted: what a record refers to, or one who has stored or read it less than the grace period ago, is there.
func TestNothingNeededIsSwept(t *testing.T) {
	round := 0
	rapid.Check(t, func(rt *rapid.T) {
		round++
		s, clock := openClocked(t, fmt.Sprintf("mem://%s/%d", t.TempDir(), round))
		w := &world{Store: s, clock: clock, ctx: t.Context(), records: map[string]string{}, held: map[string]holding{}}
		must := func(err error) {
			if err != nil {
				rt.Fatal(err)
			}
		}
		content := rapid.SampledFrom([]string{"a", "b", "c", "d"})
		some := func(of map[string]string) string {
			return rapid.SampledFrom(slices.Sorted(keysOf(of))).Draw(rt, "record")
		}
		rt.Repeat(map[string]func(*rapid.T){
			"time passes": func(rt *rapid.T) {
				hours := rapid.SampledFrom([]int{0, 1, 5, 13, 30}).Draw(rt, "hours")
				// Whoever holds something writes its record within the grace period, less the margin; so it is written first.
				for who, h := range w.held {
					if clock.time().Add(time.Duration(hours)*time.Hour).Sub(h.since) >= grace-SweepMargin {
						w.write(rt, who)
					}
				}
				clock.advance(time.Duration(hours) * time.Hour)
			},
			"store": func(rt *rapid.T) {
				c := content.Draw(rt, "content")
				_, err := w.put(c)
				must(err)
				w.hold(c)
			},
			"take over": func(*rapid.T) {
				if len(w.records) > 0 {
					w.hold(w.records[some(w.records)])
				}
			},
			"record": func(rt *rapid.T) {
				for _, who := range slices.Sorted(keysOf(w.held)) {
					if rapid.Bool().Draw(rt, "record "+who) {
						w.write(rt, who)
					}
				}
			},
			"remove": func(*rapid.T) {
				if len(w.records) > 0 {
					key := some(w.records)
					must(w.Forget(w.ctx, key))
					delete(w.records, key)
				}
			},
			"look for garbage": func(*rapid.T) {
				var err error
				w.before, w.looked = clock.time().Add(-grace), true
				w.garbage, err = w.Garbage(w.ctx, w.before)
				must(err)
			},
			"sweep": func(*rapid.T) {
				if w.looked {
					_, err := w.Sweep(w.ctx, w.garbage, w.before, nil)
					must(err)
					w.garbage, w.looked = nil, false
				}
			},
			"": w.check,
		})
	})
}

func keysOf[V any](m map[string]V) iter.Seq[string] {
	return func(yield func(string) bool) {
		for k := range m {
			if !yield(k) {
				return
			}
		}
	}
}

func (w *world) hold(content string) {
	w.count++
	w.held[fmt.Sprintf("holder-%d", w.count)] = holding{content, w.clock.time()}
}

func (w *world) write(t *rapid.T, who string) {
	content := w.held[who].content
	digest, _, err := digestOf(w.ctx, strings.NewReader(content))
	if err != nil {
		t.Fatal(err)
	}
	key := RunsPrefix + who + "/run.json"
	if err := w.PutJSON(w.ctx, key, map[string]string{"digest": digest}, WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	delete(w.held, who)
	w.records[key] = content
}

// What is not needed goes, and with it what was noted of it.
func TestSweep(t *testing.T) {
	s, clock := openClocked(t, "mem://"+t.TempDir())
	ctx := t.Context()
	digest, _, err := s.PutBlob(ctx, strings.NewReader("a"))
	if err != nil {
		t.Fatal(err)
	}
	if err := s.PutJSON(ctx, "runs/r/run.json", map[string]string{"digest": digest}, WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	collect := func() int {
		t.Helper()
		before := clock.time().Add(-grace)
		garbage, err := s.Garbage(ctx, before)
		if err != nil {
			t.Fatal(err)
		}
		gone, err := s.Sweep(ctx, garbage, before, nil)
		if err != nil {
			t.Fatal(err)
		}
		return len(gone)
	}
	clock.advance(2 * grace)
	if _, _, err := s.PutBlob(ctx, strings.NewReader("a")); err != nil { // leaves a note
		t.Fatal(err)
	}
	if err := s.Forget(ctx, "runs/r/run.json"); err != nil {
		t.Fatal(err)
	}
	if n := collect(); n != 0 {
		t.Errorf("%d blobs are gone that were needed a moment ago", n)
	}
	clock.advance(grace + time.Second)
	if n := collect(); n != 1 {
		t.Errorf("%d blobs are gone, want 1", n)
	}
	for info, err := range s.driver.List(ctx, "") {
		t.Errorf("%s is left, %v", info.Key, err)
	}
}

// Wherever a sweep comes in the midst of storing an old blob again, and wherever storing one comes in the midst of a sweep, the blob is there.
func TestSweepMeetsPut(t *testing.T) {
	for name, address := range map[string]string{"files": "file://", "memory": "mem://"} {
		for _, inner := range []string{"sweep", "put"} {
			t.Run(name+"/"+inner+" inside", func(t *testing.T) {
				for at, met := int64(1), true; met; at++ {
					met = meet(t, address+t.TempDir(), inner, at)
				}
			})
		}
	}
}

// meet does one thing in the midst of another, before its operation with a number, and reports whether it had so many.
func meet(t *testing.T, address, inner string, at int64) (met bool) {
	t.Helper()
	s, clock := openClocked(t, address)
	ctx := t.Context()
	digest, _, err := s.PutBlob(ctx, strings.NewReader("a"))
	if err != nil {
		t.Fatal(err)
	}
	clock.advance(2 * grace)
	before := clock.time().Add(-grace)
	garbage, err := s.Garbage(ctx, before)
	if err != nil || len(garbage) != 1 {
		t.Fatalf("%d blobs are garbage, %v", len(garbage), err)
	}
	aside := &clocked{Driver: clock.Driver, ages: clock.ages} // its operations are not counted
	other := New(aside, address)
	other.now = aside.time
	sweep := func(s *Store) error { _, err := s.Sweep(ctx, garbage, before, nil); return err }
	put := func(s *Store) error { _, _, err := s.PutBlob(ctx, strings.NewReader("a")); return err }
	first, second := put, sweep
	if inner == "put" {
		first, second = sweep, put
	}
	done := make(chan error, 1)
	seen := make(chan struct{}) // the second waits for the first
	var once sync.Once
	if inner == "put" {
		aside.Driver = watched{aside.Driver, func() { once.Do(func() { close(seen) }) }}
	}
	clock.count.Store(0)
	clock.before = func(n int64) {
		if n != at {
			return
		}
		met = true
		go func() { done <- second(other) }()
		select {
		case err := <-done:
			done <- err
		case <-seen:
		}
	}
	if err := first(s); err != nil {
		t.Fatal(err)
	}
	clock.before = nil
	if met {
		if err := <-done; err != nil {
			t.Fatal(err)
		}
	}
	if there, err := s.HasBlob(ctx, digest); met && (!there || err != nil) {
		t.Errorf("%s before operation %d: what was stored is gone, %v", inner, at, err)
	}
	return met
}

// watched tells when somebody finds that blobs are being deleted.
type watched struct {
	Driver
	found func()
}

func (w watched) Read(ctx context.Context, key string) (io.ReadCloser, error) {
	r, err := w.Driver.Read(ctx, key)
	if key == sweepKey && !errors.Is(err, ErrNotFound) {
		w.found()
	}
	return r, err
}

// A sweep that took so long that another one has begun leaves the other's record, for which writers wait.
func TestSweepEndsItself(t *testing.T) {
	s, _ := openClocked(t, "mem://"+t.TempDir())
	if err := s.PutJSON(t.Context(), sweepKey, sweeping{ID: "second"}, WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	for _, of := range []struct {
		id   string
		want error
	}{{"first", nil}, {"second", ErrNotFound}, {"second", ErrNotFound}} {
		if err := s.endSweep(t.Context(), of.id); err != nil {
			t.Fatal(err)
		}
		if err := s.GetJSON(t.Context(), sweepKey, new(sweeping)); !errors.Is(err, of.want) {
			t.Errorf("after the end of the %s sweep: %v, want %v", of.id, err, of.want)
		}
	}
}

// A sweep that was killed leaves its record, and the next one waits for minutes: it says so soon, and until when, but not of a short wait.
func TestSweepWaits(t *testing.T) {
	for name, c := range map[string]struct {
		ends time.Duration // of the other sweep; 0: never
		want []time.Duration
	}{
		"killed": {want: []time.Duration{sweepPatience}},
		"short":  {ends: sweepNotice / 2},
		"long":   {ends: sweepLimit, want: []time.Duration{sweepPatience}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, err := Open(t.Context(), "mem://"+t.TempDir())
				if err != nil {
					t.Fatal(err)
				}
				if err := s.PutJSON(t.Context(), sweepKey, sweeping{ID: "other"}, WriteOptions{}); err != nil {
					t.Fatal(err)
				}
				if c.ends > 0 {
					time.AfterFunc(c.ends, func() {
						if err := s.endSweep(t.Context(), "other"); err != nil {
							t.Error(err)
						}
					})
				}
				begun := time.Now()
				var said []time.Duration
				_, err = s.Sweep(t.Context(), []Info{{Key: blobsPrefix + "00/00"}}, begun, func(until time.Time) {
					said = append(said, until.Sub(begun))
					if waited := time.Since(begun); waited > 2*time.Second {
						t.Errorf("it said so after %v", waited)
					}
				})
				if err != nil {
					t.Fatal(err)
				}
				if !slices.Equal(said, c.want) {
					t.Errorf("it said that it waits for at most %v, want %v", said, c.want)
				}
				if waited, most := time.Since(begun), cmp.Or(c.ends, sweepPatience)+2*sweepPoll; waited > most {
					t.Errorf("it waited %v, want at most %v", waited, most)
				}
			})
		})
	}
}
