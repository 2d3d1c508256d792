package transform

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/google/cel-go/cel"
	"go.yaml.in/yaml/v3"

	"github.com/sluiceml/sluice/dsl/document"
	"github.com/sluiceml/sluice/dsl/expr/value"
	"github.com/sluiceml/sluice/internal/suggest"
)

// ColumnType is the type that the values of a column of text or JSON are given.
type ColumnType struct {
	// Name is one of columnTypes.
	Name string
	// Precision and Scale are those of a decimal.
	Precision, Scale int
}

// columnTypes are the names of types of columns, with their types in expressions.
var columnTypes = map[string]*cel.Type{
	"bool": cel.BoolType, "int": cel.IntType, "uint": cel.UintType, "double": cel.DoubleType, "decimal": value.DecimalType,
	"date": cel.TimestampType, "timestamp": cel.TimestampType, "local_timestamp": cel.TimestampType, "duration": cel.DurationType,
	"bytes": cel.BytesType, "string": cel.StringType,
}

// ParseColumnType parses a type of a column: timestamp, decimal(10, 2).
func ParseColumnType(text string) (ColumnType, error) {
	t := ColumnType{Name: "decimal"}
	if _, err := fmt.Sscanf(text, "decimal(%d, %d)", &t.Precision, &t.Scale); err == nil && strings.ReplaceAll(t.String(), " ", "") == strings.ReplaceAll(text, " ", "") {
		if t.Precision < 1 || t.Precision > value.MaxDigits || t.Scale < 0 || t.Scale > t.Precision {
			return t, fmt.Errorf("%s: a decimal has 1 to %d digits, and not more of them after the point", text, value.MaxDigits)
		}
		return t, nil
	}
	if text == "decimal" {
		return ColumnType{}, fmt.Errorf("write how many digits it has, and how many after the point: decimal(10, 2)")
	}
	if columnTypes[text] == nil {
		return ColumnType{}, fmt.Errorf("there is no type %q", text)
	}
	return ColumnType{Name: text}, nil
}

// String returns the text that is parsed as the type.
func (t ColumnType) String() string {
	if t.Name == "decimal" {
		return fmt.Sprintf("decimal(%d, %d)", t.Precision, t.Scale)
	}
	return t.Name
}

// TypesKey is what the transforms have that read files without types.
type TypesKey struct {
	// Types of columns whose values get one: {price: "decimal(10, 2)", at: timestamp}. bool, int, uint, double, decimal(DIGITS, OF THEM AFTER
	// THE POINT), date (2024-01-31), timestamp (RFC 3339, with a zone), local_timestamp (without one), duration (1h30m, 9.5s), bytes (base64) or
	// string. A row with a value that is not of its column's type is rejected (type). Empty fields of CSV are null, but in columns of strings.
	Types map[string]string `json:"types,omitempty"`
}

// Check demands types that there are.
func (TypesKey) Check(r document.Reporter, _ StepFacts, config *yaml.Node) {
	for _, n := range document.Entries(config, "types") {
		if n.Kind != yaml.ScalarNode {
			continue
		}
		if _, err := ParseColumnType(n.Value); err != nil {
			hint := ""
			if !strings.HasPrefix(n.Value, "decimal") {
				names := slices.Sorted(maps.Keys(columnTypes))
				hint = cmp.Or(suggest.DidYouMean(n.Value, names), "write one of "+strings.Join(names, ", "))
			}
			r.Errorf(n, "column-type", hint, "%s", err)
		}
	}
}

// typed returns a shape with the types of columns.
func (TypesKey) typed(in Shape, config *yaml.Node) Shape {
	for name, n := range document.Entries(config, "types") {
		if t, err := ParseColumnType(n.Value); err == nil {
			in = in.with(name.Value, columnTypes[t.Name])
		}
	}
	return in
}
