package format

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/sluiceml/sluice/internal/fault"
	"github.com/sluiceml/sluice/internal/objectstore"
)

// File is one file of the input.
type File struct {
	// Path is where it is: on this machine, or its key in a bucket.
	Path string `json:"path"`
	// Name is the path as the dead letter and the account show it: relative to the folder that all patterns lie in, or with the bucket.
	Name string `json:"name"`
	Size int64  `json:"size"`
	// Bucket is what it is in, if it is an object, and Version tells it from another one at its place.
	Bucket  objectstore.Address `json:"bucket,omitzero"`
	Version string              `json:"version,omitempty"`

	read *atomic.Int64 // what is read of it is added to this, unless it is nil
}

// CountTo has what is read of the file added to n.
func (f *File) CountTo(n *atomic.Int64) { f.read = n }

// Find lists the files that patterns match, by name, each once.
func Find(ctx context.Context, patterns []string) ([]File, error) {
	var local []string
	var files []File
	for _, pattern := range patterns {
		if !inBucket(pattern) {
			local = append(local, pattern)
			continue
		}
		found, err := findObjects(ctx, pattern)
		if err != nil {
			return nil, err
		}
		if len(found) == 0 {
			return nil, errNoMatch(pattern)
		}
		files = append(files, found...)
	}
	if len(local) > 0 {
		found, err := findLocal(local)
		if err != nil {
			return nil, err
		}
		files = append(files, found...)
	}
	slices.SortFunc(files, func(a, b File) int { return strings.Compare(a.Name, b.Name) })
	return slices.CompactFunc(files, func(a, b File) bool { return a.Name == b.Name && a.Bucket == b.Bucket }), nil
}

// findLocal lists the files of this machine that patterns match, each once.
func findLocal(patterns []string) ([]File, error) {
	bases := make([]string, len(patterns))
	for i, pattern := range patterns {
		bases[i], _ = splitPattern(pattern)
	}
	root := commonFolder(bases)
	seen := map[string]bool{}
	var files []File
	for i, pattern := range patterns {
		found, err := matchFiles(pattern, bases[i])
		if err != nil {
			return nil, err
		}
		before := len(files)
		for _, file := range found {
			if file.Name, err = filepath.Rel(root, file.Path); err != nil {
				return nil, err
			}
			if !seen[file.Path] {
				files = append(files, file)
			}
			seen[file.Path] = true
		}
		if before == len(files) && len(found) == 0 {
			return nil, errNoMatch(pattern)
		}
	}
	return files, nil
}

// matchFiles lists the regular files that a pattern matches. What is read lies in the folder base.
func matchFiles(pattern, base string) ([]File, error) {
	_, rest := splitPattern(pattern)
	for segment := range strings.SplitSeq(rest, "/") {
		if _, err := path.Match(segment, ""); err != nil {
			return nil, fault.Errorf(fault.Invalid, "path %q: %w", pattern, err)
		}
	}
	names, err := globNames(base, rest)
	if err != nil {
		return nil, fmt.Errorf("read the input: %w", err)
	}
	var files []File
	for _, name := range names {
		file := File{Path: filepath.Join(base, name)}
		info, err := os.Stat(file.Path)
		if err != nil {
			return nil, fmt.Errorf("read the input: %w", err)
		}
		if file.Size = info.Size(); info.Mode().IsRegular() {
			files = append(files, file)
		}
	}
	return files, nil
}

// globNames lists what a pattern matches in a folder; only for a ** it looks at all there is.
func globNames(base, pattern string) ([]string, error) {
	segments := strings.Split(pattern, "/")
	matches := func(name string) bool { return matchName(segments, strings.Split(name, "/")) }
	if !slices.Contains(segments, "**") {
		names, err := fs.Glob(os.DirFS(base), pattern)
		return slices.DeleteFunc(names, func(name string) bool { return !matches(name) }), err
	}
	var names []string
	err := fs.WalkDir(os.DirFS(base), ".", func(name string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() && matches(name) {
			names = append(names, name)
		}
		return err
	})
	return names, err
}

// matchName matches the segments of a name; a segment ** matches any number of them, none too. As in a shell a dot at the beginning of a
// segment must be in the pattern, so that what systems leave in folders (.DS_Store, ._x) is not read.
func matchName(pattern, name []string) bool {
	if len(pattern) == 0 {
		return len(name) == 0
	}
	if pattern[0] == "**" {
		rest := slices.IndexFunc(pattern, func(s string) bool { return s != "**" })
		if rest < 0 {
			return len(name) > 0 && !slices.ContainsFunc(name, hidden)
		}
		for i := range name {
			if matchName(pattern[rest:], name[i:]) {
				return true
			}
			if hidden(name[i]) {
				return false
			}
		}
		return false
	}
	if len(name) == 0 || hidden(name[0]) && !strings.HasPrefix(pattern[0], ".") && !strings.HasPrefix(pattern[0], `\.`) {
		return false
	}
	ok, _ := path.Match(pattern[0], name[0]) // the pattern was checked
	return ok && matchName(pattern[1:], name[1:])
}

func hidden(segment string) bool { return strings.HasPrefix(segment, ".") }

// splitPattern splits a pattern after the last of its leading folders that exists by that very name: an input's folder may be
// called anything, also "[a]". What is read lies in that folder.
func splitPattern(pattern string) (base, rest string) {
	base, rest = ".", filepath.Clean(pattern)
	if filepath.IsAbs(rest) {
		base, rest = "/", rest[1:]
	}
	for {
		first, after, more := strings.Cut(rest, "/")
		next := filepath.Join(base, first)
		if info, err := os.Stat(next); !more || err != nil || !info.IsDir() {
			return base, rest
		}
		base, rest = next, after
	}
}

// commonFolder is the deepest folder that all of the folders are or lie in.
func commonFolder(folders []string) string {
	common := folders[0]
	for _, f := range folders[1:] {
		for common != "." && common != "/" && f != common && !strings.HasPrefix(f, common+"/") {
			common = filepath.Dir(common)
		}
	}
	return common
}
