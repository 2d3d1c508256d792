package format

import (
	"fmt"
	"io"

	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/dsl/transform"
	"github.com/sluiceml/sluice/pipelines/columns"
	"github.com/sluiceml/sluice/pipelines/rows"
)

// ShardFormat is how a sink writes its shards. What all of a dataset's shards have in common, the columns, is known when all rows are:
// shards are written as JSON lines first, and those of another format converted in the end.
type ShardFormat struct {
	// Ext is the extension of the files, with its dot.
	Ext string
	// Typed says that its columns have types.
	Typed bool
	// Check rejects a row that the format cannot hold; nil: it holds any.
	Check func(rows.Row) error
	// Open begins a shard of rows of a type; nil: shards remain as JSON lines.
	Open func(io.Writer, *columns.Type) (ShardWriter, error)
}

// ShardWriter writes the rows of one shard, one after the other.
type ShardWriter interface {
	// Write writes a row. A columns.Misfit says that a value is of another type than its column.
	Write(rows.Row) error
	// Close writes what comes after the last row. It does not close what is written to.
	Close() error
}

// LinesExt is the extension of JSON lines.
const LinesExt = ".jsonl"

// CompileWriter compiles what a transform that writes says of its files.
func CompileWriter(t spec.Transform) (ShardFormat, transform.WriteKeys, error) {
	switch {
	case transform.Is[transform.WriteToJSON](t.Type):
		c, err := rows.DecodeConfig[transform.WriteToJSON](t)
		return ShardFormat{Ext: LinesExt}, c.WriteKeys, err
	case transform.Is[transform.WriteToCSV](t.Type):
		c, err := rows.DecodeConfig[transform.WriteToCSV](t)
		if err != nil {
			return ShardFormat{}, c.WriteKeys, err
		}
		f, err := csvShards(c)
		return f, c.WriteKeys, err
	case transform.Is[transform.WriteToText](t.Type):
		c, err := rows.DecodeConfig[transform.WriteToText](t)
		return ShardFormat{Ext: ".txt", Check: checkTextRow, Open: openTextShard}, c.WriteKeys, err
	case transform.Is[transform.WriteToParquet](t.Type):
		c, err := rows.DecodeConfig[transform.WriteToParquet](t)
		return ShardFormat{Ext: ".parquet", Typed: true, Open: openParquetShard}, c.WriteKeys, err
	case transform.Is[transform.WriteToAvro](t.Type):
		c, err := rows.DecodeConfig[transform.WriteToAvro](t)
		return ShardFormat{Ext: ".avro", Typed: true, Open: openAvroShard}, c.WriteKeys, err
	}
	return ShardFormat{}, transform.WriteKeys{}, fmt.Errorf("there is no transform of type %q", t.Type)
}

// ConvertMemory is what converting one shard takes at most, about: a group of rows in the columns of Parquet and encoded.
const ConvertMemory = 4 * groupBytes
