package store_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/iotest"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/sluiceml/sluice/internal/fault"
	"github.com/sluiceml/sluice/store"
)

// conformance checks the contract written on store.Driver, which every driver fulfils. empty returns an empty store's driver each time.
func conformance(t *testing.T, empty func(t *testing.T) store.Driver) {
	tests := []struct {
		name string
		run  func(t *testing.T, d store.Driver)
	}{
		{"ReadsWhatWasWritten", readsWhatWasWritten},
		{"Replaces", replaces},
		{"WritesAlso", writesAlso},
		{"IfAbsent", writesIfAbsent},
		{"OneOfManyWritersWins", oneOfManyWritersWins},
		{"FailedWriteLeavesNothing", failedWriteLeavesNothing},
		{"Absent", absent},
		{"RefusesBadKeys", refusesBadKeys},
		{"NoKeyIsAFolder", noKeyIsAFolder},
		{"List", list},
		{"ReaderKeepsItsObject", readerKeepsItsObject},
		{"BehavesLikeAMap", behavesLikeAMap},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) { test.run(t, empty(t)) })
	}
}

func readsWhatWasWritten(t *testing.T, d store.Driver) {
	for _, content := range []string{"", "a", strings.Repeat("0123456789", 1_000_000)} {
		key := fmt.Sprintf("blobs/00/size-%d", len(content))
		put(t, d, key, content)
		if got := get(t, d, key); got != content {
			t.Errorf("%s: read %d bytes, wrote %d", key, len(got), len(content))
		}
		info, err := d.Stat(t.Context(), key)
		if err != nil {
			t.Fatal(err)
		}
		if age := time.Since(info.Modified); age > time.Hour || age < -time.Hour { // clocks differ
			t.Errorf("%s was written %s ago", key, age)
		}
		info.Modified = time.Time{}
		if diff := cmp.Diff(store.Info{Key: key, Bytes: int64(len(content))}, info); diff != "" {
			t.Errorf("Stat (-want +got):\n%s", diff)
		}
	}
}

func replaces(t *testing.T, d store.Driver) {
	put(t, d, "k", "a longer first content")
	put(t, d, "k", "second")
	if got := get(t, d, "k"); got != "second" {
		t.Errorf("got %q", got)
	}
}

func writesAlso(t *testing.T, d store.Driver) {
	put(t, d, "cache/k", "old")
	for _, opts := range []store.WriteOptions{{Unsynced: true}, {}, {IfAbsent: true}} {
		opts.LinkAs = "cache/k"
		key := fmt.Sprintf("runs/%v/%v", opts.Unsynced, opts.IfAbsent)
		if err := d.Write(t.Context(), key, strings.NewReader(key), opts); err != nil {
			t.Fatal(err)
		}
		if one, two := get(t, d, key), get(t, d, "cache/k"); one != key || two != key {
			t.Errorf("%s: read %q, and %q under the other key", key, one, two)
		}
	}
	put(t, d, "cache/k", "new") // it is another object than the one it was written with
	if got := get(t, d, "runs/false/true"); got != "runs/false/true" {
		t.Errorf("a write of one key changed the other: %q", got)
	}
	if err := d.Write(t.Context(), "other", strings.NewReader(""), store.WriteOptions{LinkAs: "../k"}); !errors.Is(err, store.ErrKey) {
		t.Errorf("Also: got %v, want ErrKey", err)
	}
	want := []string{"cache/k", "runs/false/false", "runs/false/true", "runs/true/false"}
	if diff := cmp.Diff(want, keys(t, d, "")); diff != "" {
		t.Errorf("keys (-want +got):\n%s", diff)
	}
}

func writesIfAbsent(t *testing.T, d store.Driver) {
	opts := store.WriteOptions{IfAbsent: true}
	if err := d.Write(t.Context(), "a/b/k", strings.NewReader("first"), opts); err != nil {
		t.Fatal(err)
	}
	if err := d.Write(t.Context(), "a/b/k", strings.NewReader("second"), opts); !errors.Is(err, store.ErrExists) {
		t.Errorf("second write: got %v, want ErrExists", err)
	}
	if got := get(t, d, "a/b/k"); got != "first" {
		t.Errorf("got %q", got)
	}
	remove(t, d, "a/b/k")
	if err := d.Write(t.Context(), "a/b/k", strings.NewReader("third"), opts); err != nil {
		t.Errorf("after Delete: %v", err)
	}
}

func oneOfManyWritersWins(t *testing.T, d store.Driver) {
	const writers = 32
	var won atomic.Int64
	var winner atomic.Value
	var group sync.WaitGroup
	for i := range writers {
		group.Go(func() {
			content := fmt.Sprintf("writer %d", i)
			err := d.Write(context.Background(), "seal/1", strings.NewReader(content), store.WriteOptions{IfAbsent: true})
			switch {
			case err == nil:
				won.Add(1)
				winner.Store(content)
			case !errors.Is(err, store.ErrExists):
				t.Errorf("writer %d: %v", i, err)
			}
		})
	}
	group.Wait()
	if won.Load() != 1 {
		t.Fatalf("%d writers won", won.Load())
	}
	if got := get(t, d, "seal/1"); got != winner.Load() {
		t.Errorf("the store has %q, the winner wrote %q", got, winner.Load())
	}
}

func failedWriteLeavesNothing(t *testing.T, d store.Driver) {
	broken := errors.New("the network is down")
	content := func() io.Reader { return io.MultiReader(strings.NewReader("half of it"), iotest.ErrReader(broken)) }
	put(t, d, "there", "before")
	for _, key := range []string{"new", "there"} {
		if err := d.Write(t.Context(), key, content(), store.WriteOptions{}); !errors.Is(err, broken) {
			t.Errorf("%s: got %v, want the reader's error", key, err)
		}
	}
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	if err := d.Write(canceled, "new", strings.NewReader("x"), store.WriteOptions{}); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want Canceled", err)
	}
	if got := get(t, d, "there"); got != "before" {
		t.Errorf("got %q", got)
	}
	if diff := cmp.Diff([]string{"there"}, keys(t, d, "")); diff != "" {
		t.Errorf("keys (-want +got):\n%s", diff)
	}
}

func absent(t *testing.T, d store.Driver) {
	put(t, d, "folder/k", "x")
	for _, key := range []string{"nothing", "folder", "no/folder/either"} {
		if _, err := d.Read(t.Context(), key); !errors.Is(err, store.ErrNotFound) || !strings.Contains(err.Error(), key) {
			t.Errorf("Read(%s): got %v, want ErrNotFound with the key", key, err)
		}
		if _, err := d.Stat(t.Context(), key); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("Stat(%s): got %v, want ErrNotFound", key, err)
		}
		if err := d.Delete(t.Context(), key); err != nil {
			t.Errorf("Delete(%s): %v", key, err)
		}
	}
	if got := get(t, d, "folder/k"); got != "x" {
		t.Errorf("got %q", got)
	}
}

func refusesBadKeys(t *testing.T, d store.Driver) {
	bad := []string{
		"", "/", "/a", "a/", "a//b", ".", "..", "../a", "a/../b", "a/./b", "a/..", "a b", "a\x00b", "a\nb", "ü", "a~", "a:b", `a\b`, "%41",
		strings.Repeat("a", 201), strings.Repeat("a/", 256) + "a",
	}
	for _, key := range bad {
		_, readErr := d.Read(t.Context(), key)
		_, statErr := d.Stat(t.Context(), key)
		writeErr := d.Write(t.Context(), key, strings.NewReader(""), store.WriteOptions{})
		for op, err := range map[string]error{"Read": readErr, "Stat": statErr, "Write": writeErr, "Delete": d.Delete(t.Context(), key)} {
			if !errors.Is(err, store.ErrKey) || fault.TypeOf(err) != fault.Invalid { // to try again would not help
				t.Errorf("%s(%q): got %v of type %s, want ErrKey of type invalid", op, key, err, fault.TypeOf(err))
			}
		}
	}
	longest := strings.Repeat(strings.Repeat("a", 200)+"/", 2) + strings.Repeat("b", 110)
	for _, key := range []string{longest, "...", ".hidden", "a..b", "A-Z_0.9=@+"} {
		put(t, d, key, key)
		if got := get(t, d, key); got != key {
			t.Errorf("%q holds %q", key, got)
		}
	}
}

// noKeyIsAFolder: a driver refuses such a key, or has an object with it beside the others. It never loses one.
func noKeyIsAFolder(t *testing.T, d store.Driver) {
	put(t, d, "a/b", "x")
	want := []string{"a/b"}
	for _, key := range []string{"a", "a/b/c"} {
		for _, opts := range []store.WriteOptions{{}, {IfAbsent: true}, {LinkAs: key}} {
			to := key
			if opts.LinkAs != "" {
				to = "other"
			}
			switch err := d.Write(t.Context(), to, strings.NewReader("y"), opts); {
			case err == nil && !opts.IfAbsent:
				want = append(want, to, key)
			case opts.IfAbsent && errors.Is(err, store.ErrExists) && slices.Contains(want, key):
			case !errors.Is(err, store.ErrKey):
				t.Errorf("Write(%s, %+v): got %v, want ErrKey", to, opts, err)
			}
		}
	}
	slices.Sort(want)
	if diff := cmp.Diff(slices.Compact(want), keys(t, d, "")); diff != "" {
		t.Errorf("keys (-want +got):\n%s", diff)
	}
	if got := get(t, d, "a/b"); got != "x" {
		t.Errorf("a/b holds %q", got)
	}
}

func list(t *testing.T, d store.Driver) {
	// In byte order a hyphen and a dot come before the slash, digits after it.
	all := []string{"a-b", "a.b", "a/b", "a/c/d", "a0", "b", "runs/r1/run.json", "runs/r1/steps/a.json", "runs/r10/run.json"}
	for _, i := range []int{4, 0, 8, 2, 6, 1, 7, 3, 5} {
		put(t, d, all[i], all[i])
	}
	tests := map[string][]string{
		"":              all,
		"a":             all[:5],
		"a/":            all[2:4],
		"a/c":           {"a/c/d"},
		"a/c/d":         {"a/c/d"},
		"runs/r1":       all[6:],
		"runs/r1/":      all[6:8],
		"runs/r1/steps": {"runs/r1/steps/a.json"},
		"b/":            nil,
		"nothing/at/":   nil,
	}
	for prefix, want := range tests {
		if diff := cmp.Diff(want, keys(t, d, prefix)); diff != "" {
			t.Errorf("prefix %q (-want +got):\n%s", prefix, diff)
		}
	}
	count := 0
	for info, err := range d.List(t.Context(), "") {
		if err != nil || info.Bytes != int64(len(info.Key)) {
			t.Errorf("got %+v, %v", info, err)
		}
		if count++; count == 3 {
			break
		}
	}
	if count != 3 {
		t.Errorf("stopped after %d, want 3", count)
	}
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	for _, err := range d.List(canceled, "") {
		if !errors.Is(err, context.Canceled) {
			t.Errorf("got %v, want Canceled", err)
		}
	}
}

func readerKeepsItsObject(t *testing.T, d store.Driver) {
	first := strings.Repeat("first ", 100_000)
	put(t, d, "k", first)
	r, err := d.Read(t.Context(), "k")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	put(t, d, "k", "second")
	remove(t, d, "k")
	data, err := io.ReadAll(r)
	if err != nil || string(data) != first {
		t.Errorf("read %d bytes, %v; want the %d of the object that was opened", len(data), err, len(first))
	}
}

// behavesLikeAMap compares a driver with a map over random operations.
func behavesLikeAMap(t *testing.T, d store.Driver) {
	round := 0
	rapid.Check(t, func(rt *rapid.T) {
		round++
		base := fmt.Sprintf("round-%d/", round)
		model := map[string]string{}
		key := rapid.SampledFrom([]string{"a", "b/c", "b/d", "e/f/g"})
		content := rapid.StringN(0, 8, 8)
		rt.Repeat(map[string]func(*rapid.T){
			"write": func(rt *rapid.T) {
				k, c, absent := key.Draw(rt, "key"), content.Draw(rt, "content"), rapid.Bool().Draw(rt, "if absent")
				_, taken := model[k]
				err := d.Write(t.Context(), base+k, strings.NewReader(c), store.WriteOptions{IfAbsent: absent})
				if refused := absent && taken; refused != errors.Is(err, store.ErrExists) || !refused && err != nil {
					rt.Fatalf("write %s: %v", k, err)
				} else if !refused {
					model[k] = c
				}
			},
			"delete": func(rt *rapid.T) {
				k := key.Draw(rt, "key")
				if err := d.Delete(t.Context(), base+k); err != nil {
					rt.Fatal(err)
				}
				delete(model, k)
			},
			"": func(rt *rapid.T) {
				got := map[string]string{}
				for info, err := range d.List(t.Context(), base) {
					if err != nil {
						rt.Fatal(err)
					}
					got[strings.TrimPrefix(info.Key, base)] = get(t, d, info.Key)
				}
				if diff := cmp.Diff(model, got); diff != "" {
					rt.Fatalf("objects (-model +driver):\n%s", diff)
				}
			},
		})
	})
}

func put(t *testing.T, d store.Driver, key, content string) {
	t.Helper()
	if err := d.Write(t.Context(), key, strings.NewReader(content), store.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
}

func get(t *testing.T, d store.Driver, key string) string {
	t.Helper()
	r, err := d.Read(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	var b bytes.Buffer
	if _, err := io.Copy(&b, r); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func remove(t *testing.T, d store.Driver, key string) {
	t.Helper()
	if err := d.Delete(t.Context(), key); err != nil {
		t.Fatal(err)
	}
}

// keys lists a prefix and checks that the keys come in order.
func keys(t *testing.T, d store.Driver, prefix string) []string {
	t.Helper()
	var got []string
	for info, err := range d.List(t.Context(), prefix) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, info.Key)
	}
	if !slices.IsSorted(got) {
		t.Errorf("not in byte order: %q", got)
	}
	return got
}
