package store

import (
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/sluiceml/sluice/internal/artifact"
)

// Near knows where on this machine files are that a store has: those of the trees that were fetched to it, or stored from it. The zero value
// knows none.
type Near struct {
	mu    sync.Mutex
	paths map[string][]string // by digest
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
