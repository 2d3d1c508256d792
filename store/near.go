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

// Near knows which files of a store this machine already has: those of trees that were fetched to it or stored from it, and those of a
// cache. The zero value knows none.
type Near struct {
	// Cache keeps the files that are fetched, also by other processes of this machine. Its files are copied, not linked, so changing a fetched
	// tree does not change the cache. nil: no cache.
	Cache *filecache.Cache

	mu    sync.Mutex
	paths map[string][]string // by digest

	linked, cached, fetched atomic.Int64
}

// Sources is where the content of files came from, in bytes.
type Sources struct {
	// Linked from trees on this machine, copied from the Cache, or Fetched from the store.
	Linked, Cached, Fetched int64
}

// Sources returns the sums so far.
func (n *Near) Sources() Sources {
	return Sources{Linked: n.linked.Load(), Cached: n.cached.Load(), Fetched: n.fetched.Load()}
}

// Since returns the difference from earlier sums.
func (s Sources) Since(earlier Sources) Sources {
	return Sources{Linked: s.Linked - earlier.Linked, Cached: s.Cached - earlier.Cached, Fetched: s.Fetched - earlier.Fetched}
}

// Near returns a Store that links the files that n knows, after verifying their digests, instead of fetching them. Changing a tree that was
// fetched this way also changes the tree that n knows, so that tree must no longer be in use. Parts of the returned Store do the same.
func (s *Store) Near(n *Near) *Store {
	near := *s
	near.near = n
	return &near
}

// Forget removes all files under dir from n.
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

// add records where the files of a tree are. It does nothing if n is nil.
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

// take returns a known file with the digest, and forgets it: two files with the same content must not become links to one file.
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

// link makes path a hard link to a file on this machine with the content of f, sets its mode, and reports whether there was such a file.
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
		_ = os.Remove(path) // if this fails, so will fetching to path
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

// read opens a blob from the cache, or else with open, whose reader must verify the content at the end. size is the size of the blob, or 0
// if it is not known.
func (n *Near) read(ctx context.Context, digest string, size int64, open func() (io.ReadCloser, error)) (io.ReadCloser, error) {
	if n == nil {
		return open()
	}
	kept, fill := n.Cache.Take(ctx, strings.TrimPrefix(digest, digestPrefix))
	if kept != nil {
		if info, err := kept.Stat(); err == nil {
			n.cached.Add(info.Size())
		}
		return kept, nil // an *os.File, which the kernel can copy to another file
	}
	fill.Reserve(size)
	r, err := open()
	if err != nil {
		fill.Drop()
		return nil, err
	}
	return filling{r, n, fill}, nil
}

// filling reads a blob that is being fetched, and writes it to the cache.
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
