package store_test

import (
	"path/filepath"
	"testing"

	"github.com/sluiceml/sluice/internal/artifact"
)

// TestPutFolder: a folder of an artifact becomes the artifact that it would be by itself.
func TestPutFolder(t *testing.T) {
	s, _ := openFolder(t)
	dir := tree(t, map[string]file{"a/model": {Content: "0"}, "a/deep/run": {Content: "1", Exec: true}, "ab/model": {Content: "2"}, "report": {Content: "3"}})
	whole := putTree(t, s, dir)
	meta := map[string]string{"variant": "a"}
	want, err := s.PutTree(t.Context(), artifact.Model, filepath.Join(dir, "a"), meta, nil)
	if err != nil {
		t.Fatal(err)
	}
	got, err := s.PutFolder(t.Context(), artifact.Model, whole, "a", meta)
	if err != nil || got != want {
		t.Errorf("got %+v, %v, want %+v", got, err, want)
	}
	for _, folder := range []string{"b", "report", ""} {
		if got, err := s.PutFolder(t.Context(), artifact.Model, whole, folder, nil); err == nil {
			t.Errorf("%q, which is no folder, is stored as %+v", folder, got)
		}
	}
}
