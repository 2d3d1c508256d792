// Package columns is what is known of the columns of rows: the types that files say they have, the kinds of values that were seen in them,
// and the texts that times, decimals and bytes are in a row. It is pure.
package columns

import (
	"maps"
	"reflect"
)

// Kind is what sort of values a column has.
type Kind string

// The kinds. Of a row's values, those from Bytes to Decimal are texts.
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
)

// Type is that of a column's values, all of which may be null. Where a *Type is nil the values decide.
type Type struct {
	Kind Kind `json:"kind"`
	// Bits of an int or a float.
	Bits     int  `json:"bits,omitempty"`
	Unsigned bool `json:"unsigned,omitempty"`
	// Unit of a timestamp or a time. UTC says that it is an instant, and not what a clock shows somewhere.
	Unit Unit `json:"unit,omitempty"`
	UTC  bool `json:"utc,omitempty"`
	// Precision of a decimal in digits, of which Scale are behind the point.
	Precision int `json:"precision,omitempty"`
	Scale     int `json:"scale,omitempty"`
	// Size of bytes, when all have the same.
	Size int `json:"size,omitempty"`
	// Symbols of an enum, when they are known.
	Symbols []string `json:"symbols,omitempty"`
	// Items are those of a list, or the values of a map, and Key the keys of it.
	Items *Type `json:"items,omitempty"`
	Key   *Type `json:"key,omitempty"`
	// Fields are those of a struct. A row is one.
	Fields map[string]*Type `json:"fields,omitempty"`
}

// maxPrecision is the most digits of a decimal: Parquet and Avro have no bound, databases and Arrow end at 76 and less.
const maxPrecision = 1000

// NewDecimal returns the type of decimals; nil when there are none of so many digits.
func NewDecimal(precision, scale int) *Type {
	if precision < 1 || precision > maxPrecision || scale < 0 || scale > precision {
		return nil
	}
	return &Type{Kind: Decimal, Precision: precision, Scale: scale}
}

// Join returns the type of what is of one type or the other. Structs have the fields of both; of what else differs the values decide.
func Join(a, b *Type) *Type {
	switch {
	case a == nil || b == nil || a.Kind != b.Kind:
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
	return nil
}

// With sets the type of a field of a struct.
func (t *Type) With(name string, field *Type) {
	if t.Fields == nil {
		t.Fields = map[string]*Type{}
	}
	t.Fields[name] = field
}

// WithoutBytes returns the type without the kind that not every text which looks like it is meant as: a text can be base64 by chance.
func (t *Type) WithoutBytes() *Type {
	switch {
	case t == nil || t.Kind == Bytes:
		return nil
	case t.Kind == Struct:
		out := &Type{Kind: Struct}
		for name, field := range t.Fields {
			out.With(name, field.WithoutBytes())
		}
		return out
	case t.Kind == List:
		return &Type{Kind: List, Items: t.Items.WithoutBytes()}
	case t.Kind == Map && t.Items.WithoutBytes() == nil:
		return nil
	}
	return t
}
