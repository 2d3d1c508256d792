package transform

import (
	"github.com/google/cel-go/cel"
	"go.yaml.in/yaml/v3"

	"github.com/sluiceml/sluice/dsl/spec"
)

// ReadFromText reads each line of text files as a row, also of compressed ones (gzip, zstd, bzip2). The field `line` holds the line without
// its line end. An empty line is a row, too. It must be the first transform.
type ReadFromText struct {
	// Path of the files, or a list; * ? and [] match within a folder, ** matches any number of folders. As in a shell, * and ** do not
	// match names that begin with a dot, unless the pattern has the dot too. s3://BUCKET/PATTERN and gs://BUCKET/PATTERN are objects of a
	// bucket.
	Path spec.Paths `json:"path" dsl:"single"`
	TextEncodingKeys
	ReadKeys
}

// Shape implements Shaper.
func (t ReadFromText) Shape(_ Shape, config *yaml.Node, _ ExprTypes) Shape {
	return t.named(Shape{Fields: map[string]*cel.Type{"line": cel.StringType}}, config)
}
