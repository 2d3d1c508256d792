package transform

import (
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/sluiceml/sluice/dsl/document"
	"github.com/sluiceml/sluice/internal/suggest"
)

// WriteKeys are what all transforms that write have.
type WriteKeys struct {
	// Path is the folder in the dataset, and the name of the part under which the rows are counted; after a Split the parts are folders
	// inside it. Default: the part `all`, or the parts of the Split.
	Path string `json:"path,omitempty" dsl:"literal"`
	// Shards is the number of files of each part. Default 1.
	Shards int `json:"shards,omitempty" dsl:"min=1,max=10000"`
}

// Check demands a path that can be a folder of the dataset.
func (WriteKeys) Check(r document.Reporter, _ StepFacts, config *yaml.Node) {
	checkPlainName(r, document.Lookup(config, "path"), "a folder of the dataset")
}

// WriteToJSON writes the dataset as JSON lines with sorted keys, a folder for each part. It ends a chain.
type WriteToJSON struct {
	WriteKeys
}

// WriteToParquet writes the dataset as Parquet files, compressed by zstd, a folder for each part. All files have all columns, in
// alphabetical order. Every column is nullable; a missing field is null. A column that was read from Parquet or Avro keeps its type unless
// a transform computes it. The type of any other column is derived from its values, objects become groups with the fields of all of them, and
// integers mixed with doubles doubles. If values differ in type otherwise, the column holds JSON. It ends a chain.
type WriteToParquet struct {
	WriteKeys
}

// WriteToAvro writes the dataset as Avro object container files, compressed by deflate, one folder per part. Columns have the same types as
// with WriteToParquet, as far as Avro has them; JSON is a text of the logical type `json`. It ends a chain.
type WriteToAvro struct {
	WriteKeys
}

// WriteToCSV writes the dataset as comma-separated values as in RFC 4180, with a header and line feeds, a folder for each part. Null and
// missing fields are empty fields; lists and objects are JSON. It ends a chain.
type WriteToCSV struct {
	// Columns in their order. A row with any other field is rejected. Default: all fields, in alphabetical order.
	Columns []string `json:"columns,omitempty"`
	WriteKeys
}

// Check demands columns with names of their own.
func (w WriteToCSV) Check(r document.Reporter, in StepFacts, config *yaml.Node) {
	w.WriteKeys.Check(r, in, config)
	checkColumns(r, document.Lookup(config, "columns"))
	checkNotEmpty(r, document.Lookup(config, "columns"))
}

// WriteToText writes the dataset as text, one line per row, one folder per part. A row must have exactly one field; use MapToFields to
// select it. A value that is not a text, or contains a line end, is rejected. It ends a chain.
type WriteToText struct {
	WriteKeys
}

// CheckRows implements RowChecker: a line is one field.
func (WriteToText) CheckRows(r document.Reporter, in Shape, at, _ *yaml.Node) {
	if in.Rest == nil && len(in.Fields) != 1 {
		fields := in.Names()
		r.Errorf(at, "row", "reduce them to one field with MapToFields", "a line holds one field, but the rows have %d: %s", len(fields), strings.Join(fields, ", "))
	}
}

// CheckRows implements RowChecker: columns that are named are those of the rows.
func (WriteToCSV) CheckRows(r document.Reporter, in Shape, _, config *yaml.Node) {
	columns := document.Lookup(config, "columns")
	if columns == nil {
		return
	}
	named, fields := valuesBelow(columns), in.Names()
	for n := range document.Scalars(columns) {
		if in.typeOf(n.Value) == nil {
			r.Errorf(n, "row", suggest.Hint(n.Value, fields), "`%s` is not a field of the rows that are written", n.Value)
		}
	}
	switch left := slices.DeleteFunc(fields, func(f string) bool { return slices.Contains(named, f) }); len(left) {
	case 0:
	case 1:
		r.Errorf(columns, "row", "add it, or drop it from the rows with MapToFields", "the rows have the field `%s`, but there is no column for it", left[0])
	default:
		r.Errorf(columns, "row", "add them, or drop them from the rows with MapToFields", "the rows have fields without a column: %s", strings.Join(left, ", "))
	}
}
