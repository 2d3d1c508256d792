package store_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/sluiceml/sluice/internal/artifact"
	"github.com/sluiceml/sluice/store"
)

// file is what an artifact keeps of a file.
type file struct {
	Content string
	Exec    bool
}

func writeTree(t *testing.T, dir string, paths []string, files map[string]file) {
	t.Helper()
	for _, path := range paths {
		full := filepath.Join(dir, filepath.FromSlash(path))
		if err := os.MkdirAll(filepath.Dir(full), 0o755); err != nil {
			t.Fatal(err)
		}
		mode := fs.FileMode(0o644)
		if files[path].Exec {
			mode = 0o755
		}
		if err := os.WriteFile(full, []byte(files[path].Content), mode); err != nil {
			t.Fatal(err)
		}
	}
}

func readTree(t *testing.T, dir string) map[string]file {
	t.Helper()
	files := map[string]file{}
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		name, err := filepath.Rel(dir, path)
		files[filepath.ToSlash(name)] = file{Content: string(data), Exec: info.Mode()&0o100 != 0}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

func tree(t *testing.T, files map[string]file) string {
	t.Helper()
	dir := t.TempDir()
	var paths []string
	for path := range files {
		paths = append(paths, path)
	}
	writeTree(t, dir, paths, files)
	return dir
}

func putTree(t *testing.T, s *store.Store, dir string) artifact.Ref {
	t.Helper()
	ref, err := s.PutTree(t.Context(), artifact.Dataset, dir, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	return ref
}

var sample = map[string]file{
	"schema.json":         {Content: `{"text":"string"}`},
	"train/000.jsonl":     {Content: "one\ntwo\n"},
	"train/001.jsonl":     {Content: "three\n"},
	"train-notes.txt":     {Content: ""},
	"bin/run":             {Content: "#!/bin/sh\n", Exec: true},
	"bin/copy of run":     {Content: "#!/bin/sh\n"},
	"deep/er/and/er/ü <&": {Content: "a name that JSON escapes"},
}

// TestDigestIsStable pins the digest of a tree: a change here makes every stored artifact unreachable.
func TestDigestIsStable(t *testing.T) {
	s := open(t, "mem://"+t.TempDir())
	got, err := s.PutTree(t.Context(), artifact.Model, tree(t, sample), map[string]string{"b": "2", "a": "1"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	want := artifact.Ref{Type: artifact.Model, Digest: "sha256:5b47db95b9dbd6422c6c73fd33a9e3b64c210327f170812d3b96297278e5e744", Bytes: 75, Files: 7}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("reference (-want +got):\n%s", diff)
	}
}

func TestTreeComesBack(t *testing.T) {
	for name, address := range addresses {
		t.Run(name, func(t *testing.T) {
			s := open(t, address(t))
			ref := putTree(t, s, tree(t, sample))
			dir := filepath.Join(t.TempDir(), "new", "folder")
			if err := s.Fetch(t.Context(), ref, dir); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(sample, readTree(t, dir)); diff != "" {
				t.Errorf("files (-want +got):\n%s", diff)
			}
			if again := putTree(t, s, dir); again != ref {
				t.Errorf("stored again as %+v, was %+v", again, ref)
			}
		})
	}
}

// TestDigestProperties: the digest depends on paths, contents and the executable bit, and on nothing else.
func TestDigestProperties(t *testing.T) {
	s := open(t, "mem://"+t.TempDir())
	drawn := rapid.MapOf(
		rapid.StringMatching(`[a-c]{1,2}(/[d-e]{1,2}){0,2}\.t`),
		rapid.Custom(func(rt *rapid.T) file {
			return file{Content: rapid.StringN(0, 10, 40).Draw(rt, "content"), Exec: rapid.Bool().Draw(rt, "exec")}
		}))
	rapid.Check(t, func(rt *rapid.T) {
		files := drawn.Draw(rt, "files")
		var paths []string
		for path := range files {
			paths = append(paths, path)
		}
		slices.Sort(paths)
		first := t.TempDir()
		writeTree(t, first, paths, files)
		ref := putTree(t, s, first)

		second := t.TempDir()
		writeTree(t, second, rapid.Permutation(paths).Draw(rt, "order"), files)
		for _, path := range paths {
			full := filepath.Join(second, path)
			when := time.Unix(rapid.Int64Range(0, 1<<31).Draw(rt, "mtime"), 0)
			if err := os.Chtimes(full, when, when); err != nil {
				rt.Fatal(err)
			}
			mode := fs.FileMode(0o600)
			if files[path].Exec {
				mode = 0o700
			}
			if err := os.Chmod(full, mode); err != nil {
				rt.Fatal(err)
			}
		}
		if err := os.Mkdir(filepath.Join(second, "empty"), 0o700); err != nil {
			rt.Fatal(err)
		}
		if got := putTree(t, s, second); got != ref {
			rt.Fatalf("the same files: %+v, then %+v", ref, got)
		}
		if len(paths) == 0 {
			return
		}
		path := rapid.SampledFrom(paths).Draw(rt, "changed")
		full := filepath.Join(second, path)
		var err error
		switch rapid.IntRange(0, 3).Draw(rt, "change") {
		case 0:
			err = os.WriteFile(full, []byte(files[path].Content+"x"), 0)
		case 1:
			err = os.Rename(full, full+"x")
		case 2:
			err = os.Chmod(full, map[bool]fs.FileMode{true: 0o600, false: 0o700}[files[path].Exec])
		case 3:
			err = os.Remove(full)
		}
		if err != nil {
			rt.Fatal(err)
		}
		if got := putTree(t, s, second); got.Digest == ref.Digest {
			rt.Fatalf("%s changed and the digest did not", path)
		}
	})
}

func TestTypeAndMetaAreIdentity(t *testing.T) {
	s := open(t, "mem://"+t.TempDir())
	dir := tree(t, sample)
	seen := map[string]string{}
	for _, typ := range []artifact.Type{artifact.Dataset, artifact.Model} {
		for _, meta := range []map[string]string{nil, {"a": "1"}, {"a": "2"}} {
			ref, err := s.PutTree(t.Context(), typ, dir, meta, nil)
			if err != nil {
				t.Fatal(err)
			}
			what := fmt.Sprint(typ, meta)
			if other, taken := seen[ref.Digest]; taken {
				t.Errorf("%s has the digest of %s", what, other)
			}
			seen[ref.Digest] = what
			m, err := s.Manifest(t.Context(), ref)
			if err != nil || m.Type != typ || m.Meta["a"] != meta["a"] || len(m.Files) != len(sample) {
				t.Errorf("%s: manifest %+v, %v", what, m, err)
			}
		}
	}
}

func TestSkip(t *testing.T) {
	s := open(t, "mem://"+t.TempDir())
	dir := tree(t, sample)
	if err := os.Symlink("/nowhere", filepath.Join(dir, "bin", "broken")); err != nil {
		t.Fatal(err)
	}
	skip := func(path string) bool { return path == "bin" || path == "train/001.jsonl" || path == "deep/er/and" }
	ref, err := s.PutTree(t.Context(), artifact.Workspace, dir, nil, skip)
	if err != nil {
		t.Fatal(err)
	}
	m, err := s.Manifest(t.Context(), ref)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, f := range m.Files {
		got = append(got, f.Path)
	}
	if diff := cmp.Diff([]string{"schema.json", "train-notes.txt", "train/000.jsonl"}, got); diff != "" {
		t.Errorf("paths (-want +got):\n%s", diff)
	}
}

func TestLinkWithinTheTreeIsTheFile(t *testing.T) {
	s := open(t, "mem://"+t.TempDir())
	dir := tree(t, sample)
	if err := os.Symlink("../schema.json", filepath.Join(dir, "train", "link")); err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(t.TempDir(), "out")
	if err := s.Fetch(t.Context(), putTree(t, s, dir), out); err != nil {
		t.Fatal(err)
	}
	if got, want := readTree(t, out)["train/link"], sample["schema.json"]; got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

// counting counts writes.
type counting struct {
	store.Driver
	writes atomic.Int64
}

func (c *counting) Write(ctx context.Context, key string, r io.Reader, opts store.WriteOptions) error {
	c.writes.Add(1)
	return c.Driver.Write(ctx, key, r, opts)
}

func TestWhatIsStoredIsNotWrittenAgain(t *testing.T) {
	driver := &counting{Driver: open(t, "mem://"+t.TempDir()).Driver()}
	s := store.New(driver, "")
	dir := tree(t, sample)
	putTree(t, s, dir)
	driver.writes.Store(0)
	putTree(t, s, dir)
	if n := driver.writes.Load(); n != 0 {
		t.Errorf("%d writes for a tree that was there", n)
	}
	if err := os.WriteFile(filepath.Join(dir, "schema.json"), []byte("new"), 0o600); err != nil {
		t.Fatal(err)
	}
	putTree(t, s, dir)
	if n := driver.writes.Load(); n != 2 {
		t.Errorf("%d writes for one changed file and the manifest, want 2", n)
	}
}

func TestFetchOntoAFolder(t *testing.T) {
	s := open(t, "mem://"+t.TempDir())
	ref := putTree(t, s, tree(t, sample))
	t.Run("empty", func(t *testing.T) {
		dir := t.TempDir()
		if err := s.Fetch(t.Context(), ref, dir); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(sample, readTree(t, dir)); diff != "" {
			t.Errorf("files (-want +got):\n%s", diff)
		}
	})
	t.Run("the same", func(t *testing.T) {
		dir := tree(t, sample)
		before, err := os.Stat(dir)
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Fetch(t.Context(), ref, dir); err != nil {
			t.Fatal(err)
		}
		after, err := os.Stat(dir)
		if err != nil || !os.SameFile(before, after) {
			t.Errorf("the folder was replaced (%v)", err)
		}
	})
	t.Run("another", func(t *testing.T) {
		other := map[string]file{"schema.json": {Content: "mine"}}
		dir := tree(t, other)
		if err := s.Fetch(t.Context(), ref, dir); !errors.Is(err, store.ErrExists) {
			t.Errorf("got %v, want ErrExists", err)
		}
		if diff := cmp.Diff(other, readTree(t, dir)); diff != "" {
			t.Errorf("files (-before +after):\n%s", diff)
		}
	})
}

func TestManyFetchTheSame(t *testing.T) {
	s := open(t, "mem://"+t.TempDir())
	ref := putTree(t, s, tree(t, sample))
	parent := t.TempDir()
	dir := filepath.Join(parent, "shared")
	errs := make(chan error)
	const count = 8
	for range count {
		go func() { errs <- s.Fetch(context.Background(), ref, dir) }()
	}
	for range count {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
	if diff := cmp.Diff(sample, readTree(t, dir)); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
	onlyEntries(t, parent, "shared")
}

func TestDamagedArtifactIsNotFetched(t *testing.T) {
	tests := []struct {
		name   string
		damage func(t *testing.T, path string)
		want   error
	}{
		{"changed", func(t *testing.T, path string) { rewrite(t, path, "Three\n") }, store.ErrCorrupt},
		{"cut short", func(t *testing.T, path string) { rewrite(t, path, "th") }, store.ErrCorrupt},
		{"gone", func(t *testing.T, path string) {
			if err := os.Remove(path); err != nil {
				t.Fatal(err)
			}
		}, store.ErrNotFound},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			root := t.TempDir()
			s := open(t, "file://"+root)
			dir := tree(t, sample)
			ref := putTree(t, s, dir)
			digest, _, err := s.PutBlob(t.Context(), strings.NewReader("three\n"))
			if err != nil {
				t.Fatal(err)
			}
			sum := strings.TrimPrefix(digest, "sha256:")
			test.damage(t, filepath.Join(root, "blobs", sum[:2], sum))
			parent := t.TempDir()
			if err := s.Fetch(t.Context(), ref, filepath.Join(parent, "out")); !errors.Is(err, test.want) || !strings.Contains(err.Error(), "train/001.jsonl") {
				t.Errorf("got %v, want %v with the file's name", err, test.want)
			}
			onlyEntries(t, parent)
		})
	}
}

// TestHostileManifest stores lists of files that PutTree would never write.
func TestHostileManifest(t *testing.T) {
	s := open(t, "mem://"+t.TempDir())
	digest, _, err := s.PutBlob(t.Context(), strings.NewReader("x"))
	if err != nil {
		t.Fatal(err)
	}
	entry := func(path string) string { return fmt.Sprintf(`{"path":%q,"digest":%q,"bytes":1}`, path, digest) }
	tests := map[string]string{
		"leaves the folder":  `{"type":"dataset","files":[` + entry("../x") + `]}`,
		"leaves it later":    `{"type":"dataset","files":[` + entry("a/../../x") + `]}`,
		"absolute":           `{"type":"dataset","files":[` + entry("/tmp/x") + `]}`,
		"the folder itself":  `{"type":"dataset","files":[` + entry(".") + `]}`,
		"twice":              `{"type":"dataset","files":[` + entry("a") + "," + entry("a") + `]}`,
		"not in order":       `{"type":"dataset","files":[` + entry("b") + "," + entry("a") + `]}`,
		"no digest":          `{"type":"dataset","files":[{"path":"a","digest":"sha256:../../etc","bytes":1}]}`,
		"of another type":    `{"type":"model","files":[` + entry("a") + `]}`,
		"file and folder":    `{"type":"dataset","files":[` + entry("a") + "," + entry("a/b") + `]}`,
		"not a manifest":     `[1,2]`,
		"not even JSON":      `PK`,
		"a file is too long": `{"type":"dataset","files":[` + entry(strings.Repeat("a", 300)) + `]}`,
	}
	for name, manifest := range tests {
		t.Run(name, func(t *testing.T) {
			digest, _, err := s.PutBlob(t.Context(), strings.NewReader(manifest))
			if err != nil {
				t.Fatal(err)
			}
			parent := t.TempDir()
			if err := s.Fetch(t.Context(), artifact.Ref{Type: artifact.Dataset, Digest: digest}, filepath.Join(parent, "out")); err == nil {
				t.Error("fetched")
			}
			onlyEntries(t, parent)
		})
	}
}

func rewrite(t *testing.T, path, content string) {
	t.Helper()
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

func onlyEntries(t *testing.T, dir string, want ...string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, entry := range entries {
		got = append(got, entry.Name())
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("entries of the folder (-want +got):\n%s", diff)
	}
}

func TestListIsWhatWouldBeStored(t *testing.T) {
	dir := t.TempDir()
	writeTree(t, dir, []string{"a", "b/c", "skipped"}, map[string]file{"a": {Content: "1"}, "b/c": {Content: "2", Exec: true}})
	skip := func(path string) bool { return path == "skipped" }
	s, err := store.Open(t.Context(), "file://"+t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	ref, err := s.PutTree(t.Context(), artifact.Workspace, dir, nil, skip)
	if err != nil {
		t.Fatal(err)
	}
	manifest, err := s.Manifest(t.Context(), ref)
	if err != nil {
		t.Fatal(err)
	}
	listed, err := store.ListTree(t.Context(), dir, skip)
	if diff := cmp.Diff(manifest.Files, listed); diff != "" || err != nil {
		t.Errorf("%v (-stored +listed):\n%s", err, diff)
	}
	if _, err := store.ListTree(t.Context(), filepath.Join(dir, "none"), nil); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a folder that is not there: %v", err)
	}
}
