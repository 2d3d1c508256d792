package format

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
)

func TestFindFiles(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{
		"a/x.jsonl", "a/deep/er/y.jsonl", "a/deep/z.txt", "b/x.jsonl", "ab/w.jsonl", ".h/x.jsonl", "a/.hid.jsonl", "a/deep/._z.txt", "d/[a].csv",
	} {
		if err := os.MkdirAll(filepath.Join(dir, filepath.Dir(name)), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	tests := []struct {
		name     string
		patterns []string
		want     []string
	}{
		{"one folder", []string{"a/*.jsonl"}, []string{"x.jsonl"}},
		{"all folders", []string{"**/*.jsonl"}, []string{"a/deep/er/y.jsonl", "a/x.jsonl", "ab/w.jsonl", "b/x.jsonl"}},
		{"all files", []string{"a/**"}, []string{"deep/er/y.jsonl", "deep/z.txt", "x.jsonl"}},
		{"folders between", []string{"a/**/*.txt"}, []string{"deep/z.txt"}},
		{"list", []string{"b/*", "a/*.jsonl"}, []string{"a/x.jsonl", "b/x.jsonl"}},
		{"overlapping list", []string{"a/*.jsonl", "a/**/*.jsonl"}, []string{"deep/er/y.jsonl", "x.jsonl"}},
		{"hidden files", []string{"a/.*"}, []string{".hid.jsonl"}},
		{"hidden folder", []string{".h/*"}, []string{"x.jsonl"}},
		{"hidden folders", []string{".*/*"}, []string{".h/x.jsonl"}},
		{"hidden files in all folders", []string{"**/.*"}, []string{"a/.hid.jsonl", "a/deep/._z.txt"}},
		{"a name of pattern's characters", []string{"d/[[]a].csv"}, []string{"[a].csv"}},
		{"names that begin alike", []string{"a/x*", "ab/*"}, []string{"a/x.jsonl", "ab/w.jsonl"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			var patterns []string
			for _, p := range test.patterns {
				patterns = append(patterns, filepath.Join(dir, p))
			}
			files, err := Find(t.Context(), patterns)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, f := range files {
				got = append(got, f.Name)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
	t.Chdir(filepath.Join(dir, "a"))
	if files, err := Find(t.Context(), []string{"x.jsonl"}); err != nil || len(files) != 1 {
		t.Errorf("relative to the working folder: got %v, %v", files, err)
	}
	if _, err := Find(t.Context(), []string{"far-away.csv"}); err == nil || !strings.Contains(err.Error(), "no file matches far-away.csv in "+dir+"/a\nhelp: the path is relative") {
		t.Errorf("relative, and not there: got %v", err)
	}
	for pattern, want := range map[string]string{
		"c/*": "help: there is no folder " + dir + "/c", "a/xx.jsonl": "help: did you mean " + dir + "/a/x.jsonl?", "a/[": "syntax error", "d/[a].csv": "d/[[]a].csv", "b": "add /* to the path", "b/": "add /* to the path",
		"a/*.txt": "help: its subfolders have such files; to read them, write " + dir + "/a/**/*.txt",
	} {
		if _, err := Find(t.Context(), []string{filepath.Join(dir, "a/*"), filepath.Join(dir, pattern)}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want an error with %q", pattern, err, want)
		}
	}
}

// closedFS is a file system with a folder that cannot be listed. Root can list every folder of the disk.
type closedFS struct {
	fstest.MapFS
	closed string
}

func (c closedFS) ReadDir(name string) ([]fs.DirEntry, error) {
	if name == c.closed {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrPermission}
	}
	return c.MapFS.ReadDir(name)
}

// A folder that cannot be listed may have files that match.
func TestFindInClosedFolder(t *testing.T) {
	file := &fstest.MapFile{}
	files := closedFS{fstest.MapFS{"raw/a.jsonl": file, "raw/closed/b.jsonl": file, "raw/open/c.jsonl": file, "x": file}, "raw/closed"}
	for _, pattern := range []string{"raw/closed/*.jsonl", "raw/*/*.jsonl", "raw/**/*.jsonl", "raw/c*/b*"} {
		if names, err := globBelow(files, ".", strings.Split(pattern, "/"), nil); !errors.Is(err, fs.ErrPermission) {
			t.Errorf("%s: %v and %v", pattern, names, err)
		}
	}
	for pattern, want := range map[string][]string{
		"raw/*.jsonl": {"raw/a.jsonl"}, "raw/closed/b.jsonl": {"raw/closed/b.jsonl"}, "raw/o*/*": {"raw/open/c.jsonl"}, "none/*": nil, "x/*": nil, "none": nil,
	} {
		if names, err := globBelow(files, ".", strings.Split(pattern, "/"), nil); err != nil || !cmp.Equal(want, names) {
			t.Errorf("%s: %v and %v; want %v", pattern, names, err, want)
		}
	}
	if os.Geteuid() == 0 {
		return
	}
	dir := filepath.Join(t.TempDir(), "raw")
	if err := os.Mkdir(dir, 0o311); err != nil {
		t.Fatal(err)
	}
	if _, err := Find(t.Context(), []string{dir + "/*.jsonl"}); err == nil || !strings.Contains(err.Error(), "permission denied for "+dir) {
		t.Error(err)
	}
}
