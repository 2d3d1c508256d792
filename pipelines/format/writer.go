package format

import (
	"fmt"
	"io"

	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/dsl/transform"
	"github.com/sluiceml/sluice/pipelines/columns"
	"github.com/sluiceml/sluice/pipelines/rows"
)

// ShardFormat describes how a sink writes its shards. The columns that all shards of a dataset have in common are known only when all rows
// are written, so shards are written as JSON lines first, and converted to other formats at the end.
type ShardFormat struct {
	// Ext is the file extension, with its dot.
	Ext string
	// Typed says that columns have types.
	Typed bool
	// Check rejects a row that the format cannot represent; nil if it can represent any.
	Check func(rows.Row) error
	// Open begins a shard with rows of a type; nil if shards remain JSON lines.
	Open func(io.Writer, *columns.Type) (ShardWriter, error)
}

// ShardWriter writes the rows of one shard in order.
type ShardWriter interface {
	// Write writes a row. It returns a *columns.Misfit if a value does not have the type of its column.
	Write(rows.Row) error
	// Close writes what follows the last row. It does not close the underlying writer.
	Close() error
}

// LinesExt is the file extension of JSON lines.
const LinesExt = ".jsonl"

// CompileWriter compiles a transform that writes files.
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

// ConvertMemory is about the memory that converting one shard takes at most: a row group of Parquet as columns and encoded.
const ConvertMemory = 4 * groupBytes
