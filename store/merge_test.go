package store_test

import (
	"errors"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sluiceml/sluice/internal/artifact"
	"github.com/sluiceml/sluice/store"
)

func TestMergeTrees(t *testing.T) {
	shared := file{Content: "same"}
	for name, tt := range map[string]struct {
		trees    []map[string]file
		want     map[string]file
		conflict *store.MergeConflict
	}{
		"one": {trees: []map[string]file{{"a": {Content: "0"}}}, want: map[string]file{"a": {Content: "0"}}},
		"each its own": {
			trees: []map[string]file{{"a/0": {Content: "0"}, "meta": shared}, {"a/1": {Content: "1"}, "meta": shared}},
			want:  map[string]file{"a/0": {Content: "0"}, "a/1": {Content: "1"}, "meta": shared},
		},
		"two contents": {
			trees:    []map[string]file{{"a": {Content: "0"}}, {"b": {Content: "1"}}, {"a": {Content: "2"}}},
			conflict: &store.MergeConflict{Path: "a", Trees: [2]int{0, 2}},
		},
		"a file and a folder": {
			trees:    []map[string]file{{"a/b/c": {Content: "0"}}, {"a": {Content: "1"}}},
			conflict: &store.MergeConflict{Path: "a", Trees: [2]int{0, 1}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			s, _ := openFolder(t)
			var refs []artifact.Ref
			for _, files := range tt.trees {
				refs = append(refs, putTree(t, s, tree(t, files)))
			}
			ref, err := s.MergeTrees(t.Context(), refs)
			if conflict, _ := errors.AsType[*store.MergeConflict](err); tt.conflict != nil {
				if diff := cmp.Diff(tt.conflict, conflict); diff != "" {
					t.Errorf("%v (-want +got):\n%s", err, diff)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			dir := filepath.Join(t.TempDir(), "merged")
			if err := s.Fetch(t.Context(), ref, dir); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, readTree(t, dir)); diff != "" {
				t.Errorf("merged (-want +got):\n%s", diff)
			}
			if whole := putTree(t, s, dir); whole != ref {
				t.Errorf("the union is %+v, and as one folder it would be %+v", ref, whole)
			}
		})
	}
}
