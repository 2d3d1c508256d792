package format

import (
	"context"
	"errors"
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
	// Path is the path on this machine, or the object's key in its bucket.
	Path string `json:"path"`
	// Name is the name that the dead letter and the account show: the path relative to the folder that all patterns have in common, or the
	// URL of the object.
	Name string `json:"name"`
	Size int64  `json:"size"`
	// Bucket and Version are set for objects. Version detects that an object was replaced.
	Bucket  objectstore.Address `json:"bucket,omitzero"`
	Version string              `json:"version,omitempty"`
	// Stamp is set for files of this machine, and detects that a file was changed or replaced. Zero: that is not checked.
	Stamp Stamp `json:"stamp,omitzero"`
	// Partitions are the columns in the path.
	Partitions []Partition `json:"partitions,omitempty"`

	read *atomic.Int64 // if not nil, counts the bytes read
}

// CountTo makes reads of the file add their bytes to n.
func (f *File) CountTo(n *atomic.Int64) { f.read = n }

// Find lists the files that match any of the patterns, sorted by name, without duplicates.
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

// findLocal lists the local files that match any of the patterns, without duplicates.
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

// matchFiles lists the regular files that match a pattern, given its base folder.
func matchFiles(pattern, base string) ([]File, error) {
	_, rest := splitPattern(pattern)
	for segment := range strings.SplitSeq(rest, "/") {
		if _, err := path.Match(segment, ""); err != nil {
			return nil, fault.Errorf(fault.Invalid, "path %q: %w", pattern, err)
		}
	}
	names, err := globBelow(os.DirFS(base), ".", strings.Split(rest, "/"), nil)
	if at := (*fs.PathError)(nil); errors.As(err, &at) && errors.Is(err, fs.ErrPermission) {
		return nil, fault.Errorf(fault.User, "read %s: permission denied for %s\nhelp: give the user that runs Sluice the permission to read it",
			pattern, filepath.Join(base, at.Path))
	}
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
		if file.Size, file.Stamp = info.Size(), StampOf(info); info.Mode().IsRegular() {
			files = append(files, file)
		}
	}
	return files, nil
}

// globBelow lists what matches a pattern below a folder, through links to folders; ** follows no link back to one of the folders above. Unlike
// fs.Glob it fails if a folder cannot be listed: the files in it would be missing among the rows.
func globBelow(base fs.FS, folder string, pattern []string, above []fs.FileInfo) (names []string, err error) {
	first, rest := pattern[0], pattern[1:]
	literal := path.Join(folder, first)
	info, err := fs.Stat(base, folder)
	again := slices.ContainsFunc(above, func(a fs.FileInfo) bool { return os.SameFile(a, info) })
	switch {
	case errors.Is(err, fs.ErrNotExist), err == nil && !info.IsDir(), first == "**" && again:
		return nil, nil
	case err != nil:
		return nil, err
	case first == "**":
		if len(rest) == 0 {
			rest = []string{"*"}
		}
		if names, err = globBelow(base, folder, rest, above); err != nil {
			return nil, err
		}
		above, rest = append(slices.Clip(above), info), pattern
	case !strings.ContainsAny(first, `*?[\`):
		if _, err := fs.Stat(base, literal); errors.Is(err, fs.ErrPermission) {
			return nil, err
		} else if err != nil {
			return nil, nil //nolint:nilerr // there is none
		}
		if len(rest) == 0 {
			return []string{literal}, nil
		}
		return globBelow(base, literal, rest, above)
	}
	entries, err := fs.ReadDir(base, folder)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		name := path.Join(folder, e.Name())
		switch {
		case first == "**" && hidden(e.Name()), first != "**" && !matchName(pattern[:1], []string{e.Name()}):
		case len(rest) == 0:
			names = append(names, name)
		default:
			below, err := globBelow(base, name, rest, above)
			if err != nil {
				return nil, err
			}
			names = append(names, below...)
		}
	}
	return names, nil
}

// matchName matches a name, split into segments. A segment ** matches any number of segments, including none. As in a shell, a leading dot
// must be matched explicitly, so that hidden files of systems (.DS_Store, ._x) are not read.
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
	ok, _ := path.Match(pattern[0], name[0]) // the pattern was validated
	return ok && matchName(pattern[1:], name[1:])
}

func hidden(segment string) bool { return strings.HasPrefix(segment, ".") }

// splitPattern splits a pattern into a base folder and the rest. The base consists of the leading segments that exist literally as folders,
// since an input's folder may have any name, such as "[a]".
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

// commonFolder returns the deepest folder that contains, or is, each of the folders.
func commonFolder(folders []string) string {
	common := folders[0]
	for _, f := range folders[1:] {
		for common != "." && common != "/" && f != common && !strings.HasPrefix(f, common+"/") {
			common = filepath.Dir(common)
		}
	}
	return common
}
