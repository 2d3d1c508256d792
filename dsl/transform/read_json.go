package transform

import (
	"go.yaml.in/yaml/v3"

	"github.com/sluiceml/sluice/dsl/document"
	"github.com/sluiceml/sluice/dsl/spec"
)

// ReadFromJSON reads rows from JSON files, lines or arrays, also compressed ones (gzip, zstd, bzip2). Anything that is not a JSON object is
// rejected as a row. So is an object that a row cannot hold: with a repeated field (repeated_field), a number beyond 64 bits or too small for
// them (number_range), or half of a surrogate pair (bad_encoding, see `on_invalid`). Numbers with a fraction or an exponent are doubles. It
// must be the first transform.
type ReadFromJSON struct {
	// Path of the files, or a list; * ? and [] match within a folder, ** matches any number of folders: "${inputs.raw.path}/*.jsonl". As in
	// a shell, * and ** do not match names that begin with a dot, unless the pattern has the dot too. s3://BUCKET/PATTERN and
	// gs://BUCKET/PATTERN are objects of a bucket.
	Path spec.Paths `json:"path" dsl:"single"`
	// Format: lines (default; one row per line, or arrays of rows), document (one row per file) or dead_letter (the `element` of each row that an earlier
	// cleaning rejected, as the rejecting transform got it).
	Format string `json:"format,omitempty" dsl:"enum=lines|document|dead_letter"`
	TypesKey
	TextEncodingKeys
	ReadKeys
}

// Check demands an encoding and types that there are.
func (c ReadFromJSON) Check(r document.Reporter, in StepFacts, config *yaml.Node) {
	c.TextEncodingKeys.Check(r, in, config)
	c.TypesKey.Check(r, in, config)
}

// Shape implements Shaper: columns have the types that they are given.
func (c ReadFromJSON) Shape(_ Shape, config *yaml.Node, _ ExprTypes) Shape {
	return c.typed(c.named(anyRow, config), config)
}
