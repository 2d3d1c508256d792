package transform

import (
	"github.com/google/cel-go/cel"
	"go.yaml.in/yaml/v3"

	"github.com/sluiceml/sluice/dsl/spec"
)

// ReadFromText reads a row from each line of text files, also of compressed ones (gzip, zstd, bzip2), with the line in its field
// `text`, without its end. An empty line is a row, too. It must be the first transform.
type ReadFromText struct {
	// Path of the files, or a list; * ? and [] match within a folder, ** any number of folders.
	// As in a shell, * and ** match no name that begins with a dot unless the pattern has the dot too.
	// s3://BUCKET/PATTERN and gs://BUCKET/PATTERN are objects of a bucket.
	Path spec.Paths `json:"path" dsl:"single"`
	TextEncodingKeys
	ErrorKeys
}

// Shape implements Shaper.
func (ReadFromText) Shape(Shape, *yaml.Node, ExprTypes) Shape {
	return Shape{Fields: map[string]*cel.Type{"text": cel.StringType}}
}
