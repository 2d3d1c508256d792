package store_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sluiceml/sluice/internal/artifact"
	"github.com/sluiceml/sluice/store"
)

func openFolder(t *testing.T) (*store.Store, string) {
	t.Helper()
	dir := t.TempDir()
	s, err := store.Open(t.Context(), "file://"+dir)
	if err != nil {
		t.Fatal(err)
	}
	return s, dir
}

func blob(t *testing.T, s *store.Store, text string) string {
	t.Helper()
	digest, _, err := s.PutBlob(t.Context(), strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	return digest
}

func folder(t *testing.T, s *store.Store, files map[string]string) artifact.Ref {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	ref, err := s.PutTree(t.Context(), artifact.Dataset, dir, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	return ref
}

// Garbage is what no record leads to: not the files of an artifact, not what a stored record names, and nothing that is young.
func TestGarbage(t *testing.T) {
	s, _ := openFolder(t)
	lost := blob(t, s, "lost")
	kept := folder(t, s, map[string]string{"a": "kept file", "b": `a file that names "` + lost + `"`})
	nested := folder(t, s, map[string]string{"a": "nested file"})
	spec := blob(t, s, fmt.Sprintf(`{"inputs": {"x": {"type": "dataset", "digest": %q}}}`, nested.Digest))
	record := map[string]any{"outputs": map[string]any{"data": kept}, "spec": spec, "gone": "sha256:" + strings.Repeat("0", 64)}
	if err := s.PutJSON(t.Context(), "runs/r/run.json", record, store.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	orphan := folder(t, s, map[string]string{"a": "orphan file", "b": "kept file"})
	garbage := func(before time.Time) map[string]bool {
		t.Helper()
		all, err := s.Garbage(t.Context(), before)
		if err != nil {
			t.Fatal(err)
		}
		found := map[string]bool{}
		for _, info := range all {
			found["sha256:"+filepath.Base(info.Key)] = true
		}
		return found
	}
	want := map[string]bool{lost: true, orphan.Digest: true, blob(t, s, "orphan file"): true}
	if diff := cmp.Diff(want, garbage(time.Now().Add(time.Hour))); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if young := garbage(time.Now().Add(-time.Hour)); len(young) > 0 {
		t.Errorf("young blobs are garbage: %v", young)
	}
}

func TestVerify(t *testing.T) {
	s, dir := openFolder(t)
	ref := folder(t, s, map[string]string{"a": "first", "b": "second", "c": strings.Repeat("third", 1000)})
	verify := func() store.Verified {
		t.Helper()
		looks := int64(0)
		v, err := s.Verify(t.Context(), func(store.Verified) { looks++ })
		if err != nil {
			t.Fatal(err)
		}
		if looks != v.Blobs {
			t.Errorf("%d looks at %d blobs", looks, v.Blobs)
		}
		return v
	}
	if got := verify(); got.Blobs != 4 || len(got.Damaged)+len(got.Missing) > 0 {
		t.Errorf("got %+v", got)
	}
	path := func(digest string) string { return filepath.Join(dir, "blobs", digest[7:9], digest[7:]) }
	first, third := blob(t, s, "first"), blob(t, s, strings.Repeat("third", 1000))
	if err := os.Remove(path(first)); err != nil {
		t.Fatal(err)
	}
	damage := func(digest, text string) {
		t.Helper()
		if err := os.Remove(path(digest)); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path(digest), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	damage(third, "third")
	want := store.Verified{Blobs: 3, Damaged: []string{third}, Missing: []string{first}}
	got := verify()
	want.Bytes = got.Bytes
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	damage(ref.Digest, "{}")
	if got := verify(); len(got.Damaged) != 2 {
		t.Errorf("got %+v", got)
	}
}

// A damaged list of files is mended when the artifact is stored again, and a damaged file once RemoveDamaged has deleted it. A blob that is
// not damaged stays.
func TestDamagedIsStoredAgain(t *testing.T) {
	s, dir := openFolder(t)
	files := map[string]string{"a": "first", "b": "second"}
	ref, first, second := folder(t, s, files), blob(t, s, "first"), blob(t, s, "second")
	damage := func(digest string) {
		t.Helper()
		path := filepath.Join(dir, "blobs", digest[7:9], digest[7:])
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		text[0]++ // its size stays
		if err := os.Chmod(path, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	damaged := func() []string {
		t.Helper()
		v, err := s.Verify(t.Context(), func(store.Verified) {})
		if err != nil {
			t.Fatal(err)
		}
		return v.Damaged
	}
	damage(ref.Digest)
	if folder(t, s, files); len(damaged()) > 0 {
		t.Errorf("damaged after the artifact was stored again: %v", damaged())
	}
	damage(first)
	removed, err := s.RemoveDamaged(t.Context(), []string{first, second})
	if err != nil || !slices.Equal(removed, []string{first}) {
		t.Fatalf("got %v, %v; want that %s is removed", removed, err, first)
	}
	if whole, err := s.HasTree(t.Context(), ref); whole || err != nil {
		t.Errorf("got %t, %v for an artifact without its file", whole, err)
	}
	folder(t, s, files)
	if whole, err := s.HasTree(t.Context(), ref); !whole || err != nil || len(damaged()) > 0 {
		t.Errorf("got %t, %v, damaged %v", whole, err, damaged())
	}
}

// An artifact of which a file has been cut short is not whole.
func TestCutFileIsNotWhole(t *testing.T) {
	s, dir := openFolder(t)
	ref, first := folder(t, s, map[string]string{"a": "first"}), blob(t, s, "first")
	path := filepath.Join(dir, "blobs", first[7:9], first[7:])
	if err := os.Chmod(path, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(path, 2); err != nil {
		t.Fatal(err)
	}
	if whole, err := s.HasTree(t.Context(), ref); whole || err != nil {
		t.Errorf("got %t, %v", whole, err)
	}
}

// The records that lead to a file are found, through lists of files and through blobs that records refer to, but not through the content of
// files.
func TestReferrers(t *testing.T) {
	s, _ := openFolder(t)
	ref := folder(t, s, map[string]string{"a": "file"})
	file := blob(t, s, "file")
	other := folder(t, s, map[string]string{"a": "it names " + file})
	outputs := blob(t, s, fmt.Sprintf(`{"data": {"digest": %q}}`, ref.Digest))
	for key, record := range map[string]any{"runs/a/run.json": ref, "runs/b/run.json": outputs, "runs/c/run.json": other, "runs/d/run.json": file} {
		if err := s.PutJSON(t.Context(), key, record, store.WriteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	got, err := s.Referrers(t.Context(), []string{file, blob(t, s, "lost")})
	if err != nil {
		t.Fatal(err)
	}
	want := map[string][]store.Referrer{file: {
		{Key: "runs/a/run.json", Via: []string{ref.Digest, file}},
		{Key: "runs/b/run.json", Via: []string{outputs, ref.Digest, file}},
		{Key: "runs/d/run.json", Via: []string{file}},
	}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}
