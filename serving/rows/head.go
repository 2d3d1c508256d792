package rows

import (
	"cmp"
	"context"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/sluiceml/sluice/internal/artifact"
	"github.com/sluiceml/sluice/store"
)

// maxHead bounds the rows that Head returns, in bytes of values. There is always one.
const maxHead = 4 << 20

// Head returns up to n of the first rows of a dataset's split, without bringing the dataset to this machine.
func Head(ctx context.Context, s *store.Store, dataset artifact.Ref, split string, n int) ([]Row, error) {
	manifest, err := s.Manifest(ctx, dataset)
	if err != nil {
		return nil, err
	}
	files := slices.SortedFunc(slices.Values(manifest.Files), func(a, b artifact.File) int { return strings.Compare(a.Path, b.Path) })
	var head []Row
	var splits []string
	bytes := 0
	for _, f := range files {
		if of, _, in := strings.Cut(f.Path, "/"); in && !slices.Contains(splits, of) {
			splits = append(splits, of)
		}
		if path.Dir(f.Path) != split || path.Ext(f.Path) != ".jsonl" {
			continue
		}
		var failed error
		more, err := headOf(ctx, s, f, func(row Row, err error) bool {
			if failed = err; err != nil {
				return false
			}
			for _, value := range row {
				bytes += len(value)
			}
			if len(head) > 0 && bytes > maxHead {
				return false
			}
			head = append(head, row)
			return len(head) < n
		})
		if err != nil || failed != nil {
			return nil, cmp.Or(err, failed)
		}
		if !more {
			break
		}
	}
	switch {
	case len(head) > 0:
		return head, nil
	case slices.Contains(splits, split):
		return nil, fmt.Errorf("split %q has no rows as JSON lines", split)
	}
	return nil, noSplit(split, splits)
}

// headOf yields the rows of a shard and reports whether to go on.
func headOf(ctx context.Context, s *store.Store, shard artifact.File, yield func(Row, error) bool) (more bool, err error) {
	blob, err := s.Blob(ctx, shard.Digest)
	if err != nil {
		return false, fmt.Errorf("read the dataset: %w", err)
	}
	defer func() { _ = blob.Close() }() // not read to the end
	return scan(blob, shard.Path, yield), nil
}
