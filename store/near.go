package store

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/sluiceml/sluice/internal/artifact"
	"github.com/sluiceml/sluice/internal/filecache"
)

// Near knows where on this machine files are that a store has: those of the trees that were fetched to it, or stored from it, and those of
// a cache. The zero value knows none.
type Near struct {
	// Cache has what was fetched before, also by others of this machine, and keeps what is. Unlike the others its files are copied, so
	// whoever changes a tree that was fetched changes none of them. nil: there is none.
	Cache *filecache.Cache

	mu    sync.Mutex
	paths map[string][]string // by digest

	linked, cached, fetched atomic.Int64
}

// Sources are where the content of files came from, in bytes.
type Sources struct {
	// Linked to trees that were on the machine, copied from the Cache, or Fetched from the store.
	Linked, Cached, Fetched int64
}

// Sources returns the sums so far.
func (n *Near) Sources() Sources {
	return Sources{Linked: n.linked.Load(), Cached: n.cached.Load(), Fetched: n.fetched.Load()}
}

// Since is what came after earlier sums.
func (s Sources) Since(earlier Sources) Sources {
	return Sources{Linked: s.Linked - earlier.Linked, Cached: s.Cached - earlier.Cached, Fetched: s.Fetched - earlier.Fetched}
}

// Near returns the store as one that links files which n knows instead of fetching them, after it has verified their digests. Whoever
// changes a tree that was fetched so changes the one that n knows, so that must not be in use any more. Parts of the store do the same.
func (s *Store) Near(n *Near) *Store {
	near := *s
	near.near = n
	return &near
}

// Forget makes n know nothing of what is under dir.
func (n *Near) Forget(dir string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	prefix := filepath.Clean(dir) + string(filepath.Separator)
	for digest, paths := range n.paths {
		paths = slices.DeleteFunc(paths, func(path string) bool { return strings.HasPrefix(path, prefix) })
		if n.paths[digest] = paths; len(paths) == 0 {
			delete(n.paths, digest)
		}
	}
}

// add notes where the files of a tree are. A nil n notes nothing.
func (n *Near) add(files []artifact.File, dir string) {
	if n == nil {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.paths == nil {
		n.paths = map[string][]string{}
	}
	for _, f := range files {
		path := filepath.Join(dir, filepath.FromSlash(f.Path))
		if !slices.Contains(n.paths[f.Digest], path) {
			n.paths[f.Digest] = append(n.paths[f.Digest], path)
		}
	}
}

// take returns a file with a digest, which is given to nobody else: of two files with the same content each stays a file of its own.
func (n *Near) take(digest string) (path string, ok bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	paths := n.paths[digest]
	if len(paths) == 0 {
		return "", false
	}
	n.paths[digest] = paths[:len(paths)-1]
	return paths[len(paths)-1], true
}

// link makes path a link to a file with the content and mode of f, and reports whether there is one on this machine.
func (n *Near) link(ctx context.Context, f artifact.File, path string, mode fs.FileMode) bool {
	if n == nil {
		return false
	}
	for known, ok := n.take(f.Digest); ok; known, ok = n.take(f.Digest) {
		if os.Link(known, path) != nil {
			continue
		}
		if holds(ctx, path, f.Digest) && os.Chmod(path, mode) == nil {
			n.linked.Add(f.Bytes)
			return true
		}
		_ = os.Remove(path) // fetching it fails if this did
	}
	return false
}

// holds reports whether path is a regular file with this content.
func holds(ctx context.Context, path, digest string) bool {
	if info, err := os.Lstat(path); err != nil || !info.Mode().IsRegular() {
		return false
	}
	f, err := os.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	found, _, err := digestOf(ctx, f)
	return err == nil && found == digest
}

// read opens a blob, from the cache or else with open, whose reader has verified the content when it ends. size is how large the blob is, or
// 0 when that is not known.
func (n *Near) read(ctx context.Context, digest string, size int64, open func() (io.ReadCloser, error)) (io.ReadCloser, error) {
	if n == nil {
		return open()
	}
	kept, fill := n.Cache.Take(ctx, strings.TrimPrefix(digest, digestPrefix))
	if kept != nil {
		if info, err := kept.Stat(); err == nil {
			n.cached.Add(info.Size())
		}
		return kept, nil // a file, so that the kernel copies it where it is copied to another
	}
	fill.Reserve(size)
	r, err := open()
	if err != nil {
		fill.Drop()
		return nil, err
	}
	return filling{r, n, fill}, nil
}

// filling is a blob that is fetched, and goes to the cache.
type filling struct {
	io.ReadCloser
	near *Near
	fill *filecache.Fill
}

func (f filling) Read(p []byte) (int, error) {
	n, err := f.ReadCloser.Read(p)
	f.near.fetched.Add(int64(n))
	_, _ = f.fill.Write(p[:n]) // it does not fail
	if errors.Is(err, io.EOF) {
		f.fill.Keep()
	}
	return n, err
}

func (f filling) Close() error {
	f.fill.Drop()
	return f.ReadCloser.Close()
}
