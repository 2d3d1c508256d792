package transform

import "github.com/sluiceml/sluice/dsl/spec"

// ReadFromParquet reads rows from Parquet files. Lists and groups become lists and objects; a map with text keys becomes an object, any
// other map a list of objects with `key` and `value`; timestamps, dates and times become RFC 3339 texts, with a Z if they are in UTC;
// decimals become texts with all their digits, and bytes become base64. WriteToParquet and WriteToAvro write them with their original
// types. In the dead letter, the offset of a row is its number in the file. It must be the first transform.
type ReadFromParquet struct {
	// Path of the files, or a list; * ? and [] match within a folder, ** matches any number of folders. As in a shell, * and ** do not
	// match names that begin with a dot, unless the pattern has the dot too. s3://BUCKET/PATTERN and gs://BUCKET/PATTERN are objects of a
	// bucket.
	Path spec.Paths `json:"path" dsl:"single"`
	ErrorKeys
}

// ReadFromAvro reads rows from Avro object container files, whose schema must be a record, compressed by deflate, snappy, zstandard, bzip2
// or not at all. Values are converted to JSON as in ReadFromParquet; a value of a union is written without its type. In the dead letter,
// the offset of a row is its number in the file. It must be the first transform.
type ReadFromAvro struct {
	// Path of the files, or a list; * ? and [] match within a folder, ** matches any number of folders. As in a shell, * and ** do not
	// match names that begin with a dot, unless the pattern has the dot too. s3://BUCKET/PATTERN and gs://BUCKET/PATTERN are objects of a
	// bucket.
	Path spec.Paths `json:"path" dsl:"single"`
	ErrorKeys
}
