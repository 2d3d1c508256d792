package transform

import "github.com/sluiceml/sluice/dsl/spec"

// ReadFromParquet reads rows from Parquet files. Lists and groups become lists and objects, a map with texts for keys an object and
// another one a list of objects with `key` and `value`; timestamps, dates and times RFC 3339, with a Z where they are of UTC; decimals texts
// with all their digits, and bytes that are no text base64. WriteToParquet and WriteToAvro write them with the types that they have here. In
// the dead letter a row's offset is its number in the file. It must be the first transform.
type ReadFromParquet struct {
	// Path of the files, or a list; * ? and [] match within a folder, ** any number of folders.
	// As in a shell, * and ** match no name that begins with a dot unless the pattern has the dot too.
	// s3://BUCKET/PATTERN and gs://BUCKET/PATTERN are objects of a bucket.
	Path spec.Paths `json:"path" dsl:"single"`
	ErrorKeys
}

// ReadFromAvro reads rows from Avro object container files, whose schema must be a record, compressed by deflate, snappy, zstandard, bzip2
// or not at all. Values become JSON's as those of ReadFromParquet do; of a union the value stands alone. In the dead letter a row's offset is its number in the file. It must be the
// first transform.
type ReadFromAvro struct {
	// Path of the files, or a list; * ? and [] match within a folder, ** any number of folders.
	// As in a shell, * and ** match no name that begins with a dot unless the pattern has the dot too.
	// s3://BUCKET/PATTERN and gs://BUCKET/PATTERN are objects of a bucket.
	Path spec.Paths `json:"path" dsl:"single"`
	ErrorKeys
}
