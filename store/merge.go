package store

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"path"
	"slices"

	"github.com/sluiceml/sluice/internal/artifact"
)

// MergeConflict is the error for trees that cannot be merged: they have different files under one path, or a file where the other has a
// folder.
type MergeConflict struct {
	Path string
	// Trees are the indices of the two trees that have it.
	Trees [2]int
}

func (e *MergeConflict) Error() string {
	return fmt.Sprintf("trees %d and %d both have %s, with different content", e.Trees[0], e.Trees[1], e.Path)
}

// MergeTrees stores the union of artifacts of this store as one artifact, with the type of the first. No file is copied. Several artifacts
// may have the same path if the content is the same; otherwise the error is a *MergeConflict.
func (s *Store) MergeTrees(ctx context.Context, refs []artifact.Ref) (artifact.Ref, error) {
	merged, owner := map[string]artifact.File{}, map[string]int{}
	for i, ref := range refs {
		tree, err := s.Manifest(ctx, ref)
		if err != nil {
			return artifact.Ref{}, err
		}
		for _, f := range tree.Files {
			if other, ok := merged[f.Path]; ok && other != f {
				return artifact.Ref{}, &MergeConflict{f.Path, [2]int{owner[f.Path], i}}
			} else if !ok {
				merged[f.Path], owner[f.Path] = f, i
			}
		}
	}
	for file, i := range owner {
		for folder := path.Dir(file); folder != "."; folder = path.Dir(folder) {
			if j, ok := owner[folder]; ok {
				return artifact.Ref{}, &MergeConflict{folder, [2]int{min(i, j), max(i, j)}}
			}
		}
	}
	files := slices.SortedFunc(maps.Values(merged), func(a, b artifact.File) int { return cmp.Compare(a.Path, b.Path) })
	return s.putManifest(ctx, artifact.Manifest{Type: refs[0].Type, Files: files})
}
