package pipelines

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/sluiceml/sluice/dsl"
	"github.com/sluiceml/sluice/pipelines/rows"
)

// ReadShard calls yield for the canonical JSON of each row of a file that a cleaning has written, whose name tells its format.
func ReadShard(ctx context.Context, path string, yield func([]byte) error) error {
	format, err := formatOf(path)
	if err != nil {
		return err
	}
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	file := inputFile{Path: path, Name: filepath.Base(path), Size: info.Size()}
	return format.Read(ctx, piece{File: file, End: file.Size}, func(r record) error {
		if r.rejected != nil {
			return fmt.Errorf("row at %d: %w", r.offset, r.rejected)
		}
		text, err := rows.Encode(r.row)
		if err != nil {
			return err
		}
		return yield(text)
	})
}

// formatOf is the format of a shard.
func formatOf(path string) (fileFormat, error) {
	var r reader
	var err error
	switch filepath.Ext(path) {
	case linesExt:
		r, err = compileReadJSON(dsl.ReadFromJSON{})
	case ".csv":
		r, err = compileReadCSV(dsl.ReadFromCSV{})
	case ".txt":
		r, err = compileReadText(dsl.ReadFromText{})
	case ".parquet":
		r, err = compileReadParquet(dsl.ReadFromParquet{})
	default:
		err = fmt.Errorf("%s is no file that a cleaning writes", filepath.Base(path))
	}
	return r.format, err
}
