// Package columns describes the columns of rows: the types that files declare, the kinds of values that were seen, and the text form of
// times, decimals and bytes in a row. It also describes datasets and compares them: what their columns contain, and how far that has drifted
// from an earlier version.
//
// A profile depends only on the rows: everything in it can be added in any order and in any parts. Its size is bounded by the number of
// columns, not of rows.
package columns

import (
	"maps"
	"reflect"

	"github.com/sluiceml/sluice/dsl/expr/value"
)

// Kind is the kind of values that a column has.
type Kind string

// The kinds. In a row, a UUID, the symbol of an enum and a time of day are strings; the other kinds have values of their own (see package value).
const (
	Bool      Kind = "bool"
	Int       Kind = "int"
	Float     Kind = "float"
	Text      Kind = "text"
	JSON      Kind = "json" // any value
	Bytes     Kind = "bytes"
	UUID      Kind = "uuid"
	Enum      Kind = "enum"
	Timestamp Kind = "timestamp"
	Date      Kind = "date"
	Time      Kind = "time"
	Decimal   Kind = "decimal"
	List      Kind = "list"
	Map       Kind = "map"
	Struct    Kind = "struct"
	// Null has no values: a program that writes a file may not know the type of a column that is null in all its rows.
	Null Kind = "null"
)

// Type is the type of a column's values, all of which may be null. A nil *Type means that the type is derived from the values.
type Type struct {
	Kind Kind `json:"kind"`
	// Bits of an int or a float.
	Bits     int  `json:"bits,omitempty"`
	Unsigned bool `json:"unsigned,omitempty"`
	// Unit is that of a timestamp or a time. UTC says that it is an instant and not a local time.
	Unit Unit `json:"unit,omitempty"`
	UTC  bool `json:"utc,omitempty"`
	// Precision is the number of digits of a decimal, Scale how many of them are after the point.
	Precision int `json:"precision,omitempty"`
	Scale     int `json:"scale,omitempty"`
	// Size is the size of bytes, if all values have the same.
	Size int `json:"size,omitempty"`
	// Symbols are those of an enum, if known.
	Symbols []string `json:"symbols,omitempty"`
	// Items is the type of a list's items or of a map's values, and Key that of a map's keys.
	Items *Type `json:"items,omitempty"`
	Key   *Type `json:"key,omitempty"`
	// Fields are those of a struct. The type of a row is a struct.
	Fields map[string]*Type `json:"fields,omitempty"`
}

// NewDecimal returns a decimal type, or nil if the precision or scale is not supported.
func NewDecimal(precision, scale int) *Type {
	if precision < 1 || precision > value.MaxDigits || scale < 0 || scale > precision {
		return nil
	}
	return &Type{Kind: Decimal, Precision: precision, Scale: scale}
}

// Join returns the type of values that are of type a or b. A struct gets the fields of both, and Null adds nothing; other types that differ
// become nil, so that the values decide.
func Join(a, b *Type) *Type {
	switch {
	case a == nil || b == nil:
		return nil
	case a.Kind == Null:
		return b
	case b.Kind == Null:
		return a
	case a.Kind != b.Kind:
		return nil
	case a.Kind == Struct:
		out := &Type{Kind: Struct, Fields: maps.Clone(a.Fields)}
		for name, t := range b.Fields {
			if mine, ok := a.Fields[name]; ok {
				t = Join(mine, t)
			}
			out.With(name, t)
		}
		return out
	case a.Kind == List:
		return &Type{Kind: List, Items: Join(a.Items, b.Items)}
	case reflect.DeepEqual(a, b):
		return a
	}
	return wider(a, b)
}

// wider returns the type that holds the values of two types of a kind; nil if there is none, or the values decide.
func wider(a, b *Type) *Type {
	switch a.Kind { //nolint:exhaustive // the others are equal or nothing
	case Int, Float, Bytes, Timestamp, Time:
		if a.Unsigned != b.Unsigned || a.UTC != b.UTC {
			return nil
		}
		return &Type{Kind: a.Kind, Bits: max(a.Bits, b.Bits), Unsigned: a.Unsigned, Unit: max(a.Unit, b.Unit), UTC: a.UTC}
	case Decimal:
		scale := max(a.Scale, b.Scale)
		return NewDecimal(max(a.Precision-a.Scale, b.Precision-b.Scale)+scale, scale)
	case Enum:
		return &Type{Kind: Text}
	}
	return nil
}

// With sets the type of a field of a struct.
func (t *Type) With(name string, field *Type) {
	if t.Fields == nil {
		t.Fields = map[string]*Type{}
	}
	t.Fields[name] = field
}
