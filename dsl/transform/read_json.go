package transform

import "github.com/sluiceml/sluice/dsl/spec"

// ReadFromJSON reads rows from JSON files, also compressed ones (gzip, zstd, bzip2). What is not a JSON object is rejected as a row,
// and so is what is lost of a file that is damaged, and an object that could not be kept as it is written: with a field that is there
// twice (repeated_field), a number beyond 64 bits or too small for them (number_range), or half a character (bad_encoding, which
// `on_invalid` says more of). Numbers with a fraction or an exponent are doubles. It must be the first transform.
type ReadFromJSON struct {
	// Path of the files, or a list; * ? and [] match within a folder, ** any number of folders: "${inputs.raw.path}/*.jsonl".
	// As in a shell, * and ** match no name that begins with a dot unless the pattern has the dot too.
	// s3://BUCKET/PATTERN and gs://BUCKET/PATTERN are objects of a bucket.
	Path spec.Paths `json:"path" dsl:"single"`
	// Format: lines (default; one row a line), document (one row a file) or dead_letter (the `element` of each row that an earlier
	// cleaning rejected, as it came to the transform that rejected it).
	Format string `json:"format,omitempty" dsl:"enum=lines|document|dead_letter"`
	TextEncodingKeys
	ErrorKeys
}
