package store_test

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sluiceml/sluice/internal/artifact"
	"github.com/sluiceml/sluice/internal/filecache"
	"github.com/sluiceml/sluice/store"
)

// TestNear: files that are on the machine are linked once their content is verified, and the others are fetched.
func TestNear(t *testing.T) {
	files := map[string]file{"same": {Content: "twice"}, "twin": {Content: "twice", Exec: true}, "deep/kept": {Content: "kept"}, "changed": {Content: "as it was"}}
	var near store.Near
	whole := openMemStore(t).Near(&near)
	for _, s := range []*store.Store{whole, whole.Part("p")} {
		ref, err := s.PutTree(t.Context(), artifact.Checkpoint, tree(t, files), nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		near.Forget(os.TempDir())
		first, second := filepath.Join(t.TempDir(), "first"), filepath.Join(t.TempDir(), "second")
		if err := s.Fetch(t.Context(), ref, first); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(first, "changed"), []byte("not any more"), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := s.Fetch(t.Context(), ref, second); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(files, readTree(t, second)); diff != "" {
			t.Errorf("what was fetched (-want +got):\n%s", diff)
		}
		if got, want := linked(t, first, second), []string{"deep/kept", "same", "twin"}; !slices.Equal(got, want) {
			t.Errorf("linked are %v, want %v", got, want)
		}
		near.Forget(second)
		third := filepath.Join(t.TempDir(), "third")
		if err := s.Fetch(t.Context(), ref, third); err != nil {
			t.Fatal(err)
		}
		if got := linked(t, second, third); len(got) > 0 {
			t.Errorf("linked are %v, which were to be forgotten", got)
		}
	}
}

// linked lists the files of a tree that are also in another, under whatever names.
func linked(t *testing.T, from, to string) []string {
	t.Helper()
	var names []string
	for name := range readTree(t, to) {
		b, err := os.Stat(filepath.Join(to, name))
		if err != nil {
			t.Fatal(err)
		}
		for other := range readTree(t, from) {
			if a, err := os.Stat(filepath.Join(from, other)); err == nil && os.SameFile(a, b) {
				names = append(names, name)
			}
		}
	}
	slices.Sort(names)
	return names
}

func openMemStore(t *testing.T) *store.Store {
	t.Helper()
	s, err := store.Open(t.Context(), "mem://"+t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// reads counts what is read of a store.
type reads struct {
	store.Driver
	n *atomic.Int64
}

func (r reads) Read(ctx context.Context, key string) (io.ReadCloser, error) {
	r.n.Add(1)
	return r.Driver.Read(ctx, key)
}

// TestNearCache: what one has fetched the next takes from the machine, and nothing that is done to a tree changes what others get.
func TestNearCache(t *testing.T) {
	files := map[string]file{"same": {Content: "twice"}, "twin": {Content: "twice", Exec: true}, "deep/data": {Content: "data"}}
	whole, dir := openMemStore(t), filepath.Join(t.TempDir(), "cache")
	ref, err := whole.PutTree(t.Context(), artifact.Dataset, tree(t, files), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	var read atomic.Int64
	const bytes = 2*5 + 4
	for i, want := range []int64{3, 0, 0} { // the list of the files, and what two of them hold
		cache, err := filecache.Open(dir, 1<<20, slog.Default())
		if err != nil {
			t.Fatal(err)
		}
		near := store.Near{Cache: cache}
		s := store.New(reads{whole.Driver(), &read}, whole.URL()).Near(&near)
		read.Store(0)
		to := filepath.Join(t.TempDir(), "tree")
		if err := s.Fetch(t.Context(), ref, to); err != nil {
			t.Fatal(err)
		}
		if n := read.Load(); n != want {
			t.Errorf("fetch %d read the store %d times, want %d", i+1, n, want)
		}
		from := near.Sources()
		if i > 0 && (from.Fetched != 0 || from.Cached <= bytes) || i == 0 && (from.Fetched <= bytes-5 || from.Cached != 5) {
			t.Errorf("fetch %d: the bytes came from %+v", i+1, from)
		}
		if diff := cmp.Diff(files, readTree(t, to)); diff != "" {
			t.Errorf("fetch %d (-want +got):\n%s", i+1, diff)
		}
		for name := range files {
			overwrite(t, filepath.Join(to, name))
		}
	}
}

// overwrite changes a file in place, as a script may.
func overwrite(t *testing.T, path string) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteAt([]byte("X"), 0); err != nil {
		t.Fatal(err)
	}
}

// TestNearCacheDamage: what is damaged in the store is not kept, and what is damaged on the machine is read from the store.
func TestNearCacheDamage(t *testing.T) {
	s, dir := openMemStore(t), filepath.Join(t.TempDir(), "cache")
	cache, err := filecache.Open(dir, 1<<20, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	near := s.Near(&store.Near{Cache: cache})
	digest, _, err := s.PutBlob(t.Context(), strings.NewReader("weights"))
	if err != nil {
		t.Fatal(err)
	}
	sum := strings.TrimPrefix(digest, "sha256:")
	key, kept := "blobs/"+sum[:2]+"/"+sum, filepath.Join(dir, sum)
	put := func(content string) {
		t.Helper()
		if err := s.Driver().Write(t.Context(), key, strings.NewReader(content), store.WriteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	read := func() (string, error) {
		t.Helper()
		r, err := near.Blob(t.Context(), digest)
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		content, err := io.ReadAll(r)
		return string(content), err
	}
	put("wEights")
	if _, err := read(); !errors.Is(err, store.ErrCorrupt) {
		t.Errorf("a damaged blob: %v", err)
	}
	if left, err := filepath.Glob(kept + "*"); err != nil || len(left) > 0 {
		t.Errorf("%v are left of it, %v", left, err)
	}
	put("weights")
	for _, damage := range []func() error{
		func() error { return nil },
		func() error { return os.WriteFile(kept, []byte("weighty"), 0o600) },
		func() error { return os.Truncate(kept, 3) },
	} {
		if err := errors.Join(os.Chmod(kept, 0o600), damage()); err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Fatal(err)
		}
		if content, err := read(); content != "weights" || err != nil {
			t.Errorf("read %q, %v", content, err)
		}
	}
}
