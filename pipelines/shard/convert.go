package shard

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"golang.org/x/sync/errgroup"

	"github.com/sluiceml/sluice/pipelines/format"
	"github.com/sluiceml/sluice/pipelines/rows"
	"github.com/sluiceml/sluice/pipelines/spill"
)

// LinesPath is where the JSON lines of a shard are written: the shard's own path, or one beside it while they are not converted.
func LinesPath(path string) string {
	if filepath.Ext(path) == format.LinesExt {
		return path
	}
	return path + ".rows"
}

// shapesPath is where the columns of such a shard are.
func shapesPath(path string) string { return path + ".columns" }

// Convert writes shards in their format, several at a time, of the JSON lines that were written beside them. It calls
// begin with the size of each shard, and what begin returns with the bytes of it that are done, part by part.
func Convert(ctx context.Context, paths []string, form format.ShardFormat, parallelism int, begin func(size int64) func(part int64)) error {
	columns, err := joinShapes(paths)
	if err != nil {
		return err
	}
	workers, ctx := errgroup.WithContext(ctx)
	workers.SetLimit(parallelism)
	for _, path := range paths {
		workers.Go(func() error {
			if err := convertShard(ctx, path, form, columns, begin); err != nil {
				return fmt.Errorf("write %s: %w", filepath.Base(path), err)
			}
			return nil
		})
	}
	return workers.Wait()
}

// joinShapes returns the columns of all shards. A shard without rows has none.
func joinShapes(paths []string) (format.Shapes, error) {
	all := format.Shapes{}
	for _, path := range paths {
		text, err := os.ReadFile(shapesPath(path))
		if errors.Is(err, os.ErrNotExist) {
			continue
		} else if err != nil {
			return nil, err
		}
		var columns format.Shapes
		if err := json.Unmarshal(text, &columns); err != nil {
			return nil, err
		}
		all.Join(columns)
		if err := os.Remove(shapesPath(path)); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// convertShard writes a shard of the rows beside it, which it removes.
func convertShard(ctx context.Context, path string, form format.ShardFormat, columns format.Shapes, begin func(size int64) func(part int64)) error {
	info, err := os.Stat(LinesPath(path))
	if err != nil {
		return err
	}
	done := begin(info.Size())
	err = spill.CreateSynced(path, func(w io.Writer) error {
		shard, err := form.Open(w, columns)
		if err != nil {
			return err
		}
		err = format.ReadLines(ctx, LinesPath(path), func(text []byte) error {
			r, err := rows.Decode(text)
			if err != nil {
				return err
			}
			done(int64(len(text)) + 1)
			return shard.Write(r)
		})
		return errors.Join(err, shard.Close())
	})
	if err != nil {
		return err
	}
	return os.Remove(LinesPath(path))
}
