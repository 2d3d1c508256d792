package shard

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"

	"golang.org/x/sync/errgroup"

	"github.com/sluiceml/sluice/pipelines/columns"
	"github.com/sluiceml/sluice/pipelines/format"
	"github.com/sluiceml/sluice/pipelines/rows"
	"github.com/sluiceml/sluice/pipelines/spill"
)

// LinesPath returns the path of a shard's JSON lines: the shard's own path, or a file next to it if the shard is to be converted.
func LinesPath(path string) string {
	if filepath.Ext(path) == format.LinesExt {
		return path
	}
	return path + ".rows"
}

// seenPath returns the path of the file that describes the columns seen in such a shard.
func seenPath(path string) string { return path + ".columns" }

// Convert converts the JSON lines of shards to their format, several shards at a time. known has the types that are known for the columns;
// nil if none are. Convert calls begin with the size of each shard, and the function that begin returns with the number of bytes done in
// each step.
func Convert(
	ctx context.Context, paths []string, form format.ShardFormat, known *columns.Type, parallelism int, begin func(size int64) func(part int64),
) error {
	seen, err := joinSeen(paths)
	if err != nil {
		return err
	}
	if known != nil {
		known = &columns.Type{Kind: known.Kind, Fields: maps.Clone(known.Fields)}
	}
	for {
		err := convertAll(ctx, paths, form, seen.Type(known), parallelism, begin)
		misfit, ok := errors.AsType[*columns.Misfit](err)
		switch {
		case err == nil:
			return removeAll(paths, LinesPath)
		case !ok || known == nil || known.Fields[misfit.Column] == nil:
			return err
		}
		known.Fields[misfit.Column] = nil // a transform has changed the values: derive the type from them
	}
}

func convertAll(
	ctx context.Context, paths []string, form format.ShardFormat, row *columns.Type, parallelism int, begin func(size int64) func(part int64),
) error {
	workers, ctx := errgroup.WithContext(ctx)
	workers.SetLimit(parallelism)
	for _, path := range paths {
		workers.Go(func() error {
			if err := convertShard(ctx, path, form, row, begin); err != nil {
				return fmt.Errorf("write %s: %w", filepath.Base(path), err)
			}
			return nil
		})
	}
	return workers.Wait()
}

// joinSeen returns what was seen of the columns of all shards. Shards without rows have no such file.
func joinSeen(paths []string) (columns.Seen, error) {
	all := columns.Seen{}
	for _, path := range paths {
		text, err := os.ReadFile(seenPath(path))
		if errors.Is(err, os.ErrNotExist) {
			continue
		} else if err != nil {
			return nil, err
		}
		var seen columns.Seen
		if err := json.Unmarshal(text, &seen); err != nil {
			return nil, err
		}
		all.Join(seen)
	}
	return all, removeAll(paths, seenPath)
}

// removeAll removes the files next to the shards, if they exist.
func removeAll(paths []string, beside func(string) string) error {
	for _, path := range paths {
		if err := os.Remove(beside(path)); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	return nil
}

// convertShard converts one shard.
func convertShard(ctx context.Context, path string, form format.ShardFormat, row *columns.Type, begin func(size int64) func(part int64)) error {
	info, err := os.Stat(LinesPath(path))
	if err != nil {
		return err
	}
	done := begin(info.Size())
	return spill.CreateSynced(path, func(w io.Writer) error {
		shard, err := form.Open(w, row)
		if err != nil {
			return err
		}
		err = format.ReadLines(ctx, LinesPath(path), func(text []byte) error {
			r, _, err := rows.Unpack(text)
			if err != nil {
				return err
			}
			done(int64(len(text)) + 1)
			return shard.Write(r)
		})
		return errors.Join(err, shard.Close())
	})
}
