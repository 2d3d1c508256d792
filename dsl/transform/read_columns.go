package transform

import (
	"go.yaml.in/yaml/v3"

	"github.com/sluiceml/sluice/dsl/spec"
)

// ReadFromParquet reads rows from Parquet files. Values keep their types: decimals, timestamps, dates, bytes. Lists and groups become lists
// and objects; a map with text keys becomes an object, any other map a list of objects with `key` and `value`; times of day and UUIDs become
// texts. WriteToParquet and WriteToAvro write all of them with their original types. In the dead letter, the offset of a row is its number in
// the file. It must be the first transform.
type ReadFromParquet struct {
	// Path of the files, or a list; * ? and [] match within a folder, ** matches any number of folders. As in a shell, * and ** do not
	// match names that begin with a dot, unless the pattern has the dot too. s3://BUCKET/PATTERN and gs://BUCKET/PATTERN are objects of a
	// bucket.
	Path spec.Paths `json:"path" dsl:"single"`
	ReadKeys
}

// ReadFromAvro reads rows from Avro object container files, whose schema must be a record, compressed by deflate, snappy, zstandard, bzip2
// or not at all. Values have the types that they have in ReadFromParquet; a value of a union is written without its type. In the dead letter,
// the offset of a row is its number in the file. It must be the first transform.
type ReadFromAvro struct {
	// Path of the files, or a list; * ? and [] match within a folder, ** matches any number of folders. As in a shell, * and ** do not
	// match names that begin with a dot, unless the pattern has the dot too. s3://BUCKET/PATTERN and gs://BUCKET/PATTERN are objects of a
	// bucket.
	Path spec.Paths `json:"path" dsl:"single"`
	ReadKeys
}

// Shape implements Shaper.
func (r ReadFromParquet) Shape(in Shape, config *yaml.Node, _ ExprTypes) Shape {
	return r.partitioned(in, config)
}

// Shape implements Shaper.
func (r ReadFromAvro) Shape(in Shape, config *yaml.Node, _ ExprTypes) Shape {
	return r.partitioned(in, config)
}
