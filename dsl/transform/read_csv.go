package transform

import (
	"errors"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/google/cel-go/cel"
	"go.yaml.in/yaml/v3"

	"github.com/sluiceml/sluice/dsl/document"
	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/suggest"
)

// ReadFromCSV reads rows from files of comma-separated values as in RFC 4180, also compressed ones (gzip, zstd, bzip2). Values are
// texts, unless `types` gives their columns a type. A record with a different number of fields than columns is rejected, and so is a record
// with a quote in the wrong place; empty lines are ignored. If the quotes of a record are wrong, only the line in which it begins is rejected. It must be the first transform. One
// worker reads a file with quotes.
type ReadFromCSV struct {
	// Path of the files, or a list; * ? and [] match within a folder, ** matches any number of folders. As in a shell, * and ** do not
	// match names that begin with a dot, unless the pattern has the dot too. s3://BUCKET/PATTERN and gs://BUCKET/PATTERN are objects of a
	// bucket.
	Path spec.Paths `json:"path" dsl:"single"`
	// Delimiter is one character, "\t" for a tab. Default: a comma.
	Delimiter string `json:"delimiter,omitempty"`
	// Columns are the names of the fields, in files without a header. Default: the first record of each file names them.
	Columns []string `json:"columns,omitempty"`
	// Quote: double (default), or none, with which a quote is an ordinary character and several workers read a large file.
	Quote string `json:"quote,omitempty" dsl:"enum=double|none"`
	TypesKey
	TextEncodingKeys
	ReadKeys
}

// CheckDelimiter reports why a text cannot stand between the fields of a record.
func CheckDelimiter(s string) error {
	if utf8.RuneCountInString(s) != 1 || strings.ContainsAny(s, "\"\r\n\uFFFD") {
		return errors.New(`a delimiter is a single character, such as ";" or "\t", but not a quote or a line break`)
	}
	return nil
}

// Check demands a delimiter that is one, and columns with names of their own.
func (c ReadFromCSV) Check(r document.Reporter, in StepFacts, config *yaml.Node) {
	c.TextEncodingKeys.Check(r, in, config)
	checkDelimiter(r, config)
	checkColumns(r, document.Lookup(config, "columns"))
	c.TypesKey.Check(r, in, config)
	var columns []string
	for n := range document.Scalars(document.Lookup(config, "columns")) {
		columns = append(columns, n.Value)
	}
	inFolders := c.partitioned(Shape{}, config).Rest != nil
	for name := range document.Entries(config, "types") {
		if len(columns) > 0 && !inFolders && !slices.Contains(columns, name.Value) {
			r.Errorf(name, "row", suggest.Hint(name.Value, columns), "`%s` is not among `columns`", name.Value)
		}
	}
}

func checkDelimiter(r document.Reporter, config *yaml.Node) {
	if at := document.Lookup(config, "delimiter"); at != nil && at.Kind == yaml.ScalarNode {
		if err := CheckDelimiter(at.Value); err != nil {
			r.Errorf(at, "file-format", "", "%s", err)
		}
	}
}

func checkColumns(r document.Reporter, columns *yaml.Node) {
	if columns == nil || columns.Kind != yaml.SequenceNode {
		return
	}
	seen := map[string]bool{}
	for _, n := range columns.Content {
		if seen[n.Value] {
			r.Errorf(n, "duplicate", "give each a unique name", "two columns are named %q", n.Value)
		}
		seen[n.Value] = true
	}
}

// Shape implements Shaper: the values of records are texts.
func (c ReadFromCSV) Shape(_ Shape, config *yaml.Node, _ ExprTypes) Shape {
	columns := document.Lookup(config, "columns")
	if columns == nil || columns.Kind != yaml.SequenceNode {
		return c.typed(c.partitioned(Shape{Rest: cel.StringType}, config), config) // each file's first record names them
	}
	shape := Shape{Fields: map[string]*cel.Type{}}
	for n := range document.Scalars(columns) {
		shape.Fields[n.Value] = cel.StringType
	}
	return c.typed(c.partitioned(shape, config), config)
}
