package pipelines

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"golang.org/x/sync/errgroup"

	"github.com/sluiceml/sluice/dsl"
	"github.com/sluiceml/sluice/pipelines/rows"
)

// shardFormat is how a sink writes its shards. What all of a dataset's shards have in common, the columns, is known when all rows are:
// shards are written as JSON lines first, and those of another format converted in the end.
type shardFormat struct {
	// ext is the extension of the files, with its dot.
	ext string
	// check rejects a row that the format cannot hold; nil: it holds any.
	check func(rows.Row) error
	// open begins a shard of rows that have these columns; nil: shards remain as JSON lines.
	open func(io.Writer, shapes) (shardWriter, error)
}

// shardWriter writes the rows of one shard, one after the other.
type shardWriter interface {
	Write(rows.Row) error
	// Close writes what comes after the last row. It does not close what is written to.
	Close() error
}

// linesExt is the extension of JSON lines.
const linesExt = ".jsonl"

// compileFormat compiles what a transform that writes says of its files.
func compileFormat(t dsl.Transform) (shardFormat, dsl.WriteKeys, error) {
	switch t.Type {
	case "WriteToJson":
		c, err := rows.DecodeConfig[dsl.WriteToJSON](t)
		return shardFormat{ext: linesExt}, c.WriteKeys, err
	case "WriteToCsv":
		c, err := rows.DecodeConfig[dsl.WriteToCSV](t)
		if err != nil {
			return shardFormat{}, c.WriteKeys, err
		}
		f, err := csvShards(c)
		return f, c.WriteKeys, err
	case "WriteToText":
		c, err := rows.DecodeConfig[dsl.WriteToText](t)
		return shardFormat{ext: ".txt", check: checkTextRow, open: openTextShard}, c.WriteKeys, err
	case "WriteToParquet":
		c, err := rows.DecodeConfig[dsl.WriteToParquet](t)
		return shardFormat{ext: ".parquet", open: openParquetShard}, c.WriteKeys, err
	}
	return shardFormat{}, dsl.WriteKeys{}, fmt.Errorf("there is no transform of type %q", t.Type)
}

// linesPath is where the JSON lines of a shard are written: the shard's own path, or one beside it while they are not converted.
func linesPath(path string) string {
	if filepath.Ext(path) == linesExt {
		return path
	}
	return path + ".rows"
}

// shapesPath is where the columns of such a shard are.
func shapesPath(path string) string { return path + ".columns" }

// shards is how many shards there are, and how many of them are to be converted.
func (p *plan) shards() (written, converted int64) {
	for s := range p.sinks() {
		n := int64(len(s.parts()) * s.shards)
		if written += n; s.format.open != nil {
			converted += n
		}
	}
	return written, converted
}

// convertMemory is what converting one shard takes at most, about: a group of rows in the columns of Parquet and encoded.
const convertMemory = 4 * groupBytes

// convertShards converts the shards of all sinks whose format is not JSON lines.
func convertShards(ctx context.Context, job Job, p *plan, progress *phase) error {
	for s := range p.sinks() {
		if s.format.open == nil {
			continue
		}
		var paths []string
		for path := range s.paths() {
			paths = append(paths, filepath.Join(job.WorkDir, "out", path))
		}
		columns, err := joinShapes(paths)
		if err != nil {
			return err
		}
		workers, ctx := errgroup.WithContext(ctx)
		workers.SetLimit(max(1, min(job.Parallelism, int(job.Memory/convertMemory))))
		for _, path := range paths {
			workers.Go(func() error {
				if err := convertShard(ctx, path, s.format, columns, progress); err != nil {
					return fmt.Errorf("write %s: %w", filepath.Base(path), err)
				}
				return nil
			})
		}
		if err := workers.Wait(); err != nil {
			return err
		}
	}
	return nil
}

// joinShapes returns the columns of all shards. A shard without rows has none.
func joinShapes(paths []string) (shapes, error) {
	all := shapes{}
	for _, path := range paths {
		text, err := os.ReadFile(shapesPath(path))
		if errors.Is(err, os.ErrNotExist) {
			continue
		} else if err != nil {
			return nil, err
		}
		var columns shapes
		if err := json.Unmarshal(text, &columns); err != nil {
			return nil, err
		}
		all.join(columns)
		if err := os.Remove(shapesPath(path)); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// convertShard writes a shard of the rows beside it, which it removes.
func convertShard(ctx context.Context, path string, format shardFormat, columns shapes, progress *phase) error {
	info, err := os.Stat(linesPath(path))
	if err != nil {
		return err
	}
	done := progress.shard(info.Size())
	err = createSynced(path, func(w io.Writer) error {
		shard, err := format.open(w, columns)
		if err != nil {
			return err
		}
		err = readLines(ctx, linesPath(path), func(text []byte) error {
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
	return os.Remove(linesPath(path))
}

// readLines calls yield for the lines of a file that this program has written.
func readLines(ctx context.Context, path string, yield func([]byte) error) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	lines.Buffer(make([]byte, lineBuffer), rows.MaxSize+1)
	for lines.Scan() {
		if err := context.Cause(ctx); err != nil {
			return err
		}
		if err := yield(lines.Bytes()); err != nil {
			return err
		}
	}
	return lines.Err()
}
