package answer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"

	"github.com/sluiceml/sluice/internal/artifact"
	"github.com/sluiceml/sluice/store"
)

// maxHead bounds the rows that FirstRows returns, in bytes of values. There is always one.
const maxHead = 4 << 20

// DataError says what is wrong with the data, which stays so however often they are read.
type DataError struct{ Reason error }

// Error implements error.
func (e *DataError) Error() string { return e.Reason.Error() }

// Unwrap returns the reason.
func (e *DataError) Unwrap() error { return e.Reason }

// FirstRows returns up to n of the first rows of a dataset's split, without bringing the dataset to this machine. Errors are those of the store, and
// DataErrors.
func FirstRows(ctx context.Context, s *store.Store, dataset artifact.Ref, split string, n int) ([]Row, error) {
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
		more, err := headOf(ctx, s, f, func(row Row) bool {
			for _, value := range row {
				bytes += len(value)
			}
			if len(head) > 0 && bytes > maxHead {
				return false
			}
			head = append(head, row)
			return len(head) < n
		})
		if err != nil {
			return nil, err
		}
		if !more {
			break
		}
	}
	switch {
	case len(head) > 0:
		return head, nil
	case slices.Contains(splits, split):
		return nil, &DataError{fmt.Errorf("split %q has no rows as JSON lines", split)}
	}
	return nil, &DataError{noSplit(split, splits)}
}

// headOf yields the rows of a shard and reports whether to go on.
func headOf(ctx context.Context, s *store.Store, shard artifact.File, yield func(Row) bool) (more bool, err error) {
	blob, err := s.Blob(ctx, shard.Digest)
	if err != nil {
		return false, fmt.Errorf("read the dataset: %w", err)
	}
	defer func() { _ = blob.Close() }() // not read to the end
	source := &noting{Reader: blob}
	more = scan(source, shard.Path, func(row Row, bad error) bool {
		switch {
		case bad != nil && source.err != nil: // such as half a row, where reading broke off
			err = fmt.Errorf("read the dataset: %s: %w", shard.Path, source.err)
		case bad != nil:
			err = &DataError{bad}
		default:
			return yield(row)
		}
		return false
	})
	return more, err
}

// noting keeps the error that reading ended with.
type noting struct {
	io.Reader
	err error
}

func (n *noting) Read(p []byte) (int, error) {
	read, err := n.Reader.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		n.err = err
	}
	return read, err
}
