package format

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/sluiceml/sluice/dsl/transform"
	"github.com/sluiceml/sluice/pipelines/rows"
)

// ReadShard calls yield with the text (see rows.Pack) of each row of a file that a cleaning has written. The file's extension determines its
// format.
func ReadShard(ctx context.Context, path string, yield func([]byte) error) error {
	format, err := formatOf(path)
	if err != nil {
		return err
	}
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	file := File{Path: path, Name: filepath.Base(path), Size: info.Size()}
	return format.Read(ctx, Piece{File: file, End: file.Size}, func(r Record) error {
		if r.Rejected != nil {
			return fmt.Errorf("row at %d: %w", r.Offset, r.Rejected)
		}
		text, err := rows.Pack(nil, r.Row)
		if err != nil {
			return err
		}
		return yield(text)
	})
}

// formatOf returns the format of a shard.
func formatOf(path string) (Format, error) {
	var r Reader
	var err error
	switch filepath.Ext(path) {
	case LinesExt:
		r, err = CompileReadJSON(transform.ReadFromJSON{})
	case ".csv":
		r, err = compileReadCSV(transform.ReadFromCSV{})
	case ".txt":
		r, err = compileReadText(transform.ReadFromText{})
	case ".avro":
		r, err = compileReadAvro(transform.ReadFromAvro{})
	case ".parquet":
		r, err = compileReadParquet(transform.ReadFromParquet{})
	default:
		err = fmt.Errorf("%s is not a file written by a clean step", filepath.Base(path))
	}
	return r.Format, err
}
