package format

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"math"
	"time"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/deprecated"
	"github.com/parquet-go/parquet-go/format"

	"github.com/sluiceml/sluice/dsl/expr/value"
	"github.com/sluiceml/sluice/pipelines/columns"
	"github.com/sluiceml/sluice/pipelines/rows"
)

// parquetNode is a field of a Parquet schema, with what is needed to assemble rows from columns.
type parquetNode struct {
	name     string
	optional bool
	repeated bool
	// definition and repetition are the field's levels, which tell whether it is present and where one of its items begins.
	definition, repetition int
	// children are those of a group. A leaf has none; it has convert, and leaf is the type of its values.
	children []*parquetNode
	convert  func(parquet.Value) (any, error)
	leaf     *columns.Type
	columns  int
	list     bool
	bare     bool // a list whose items are the repeated group itself, as old writers produce it
	keys     bool // the field is a map
}

// parquetSchema builds the nodes of a schema.
type parquetSchema struct {
	elements []format.SchemaElement // remaining elements, in depth-first order
}

// node returns the node of the next field, below a parent with the given levels.
func (s *parquetSchema) node(name string, n parquet.Node, definition, repetition int) *parquetNode {
	element := s.elements[0]
	s.elements = s.elements[1:]
	f := &parquetNode{name: name, optional: n.Optional(), repeated: n.Repeated()}
	if f.optional || f.repeated {
		definition++
	}
	if f.repeated {
		repetition++
	}
	f.definition, f.repetition = definition, repetition
	if n.Leaf() {
		f.columns = 1
		f.leaf, f.convert = parquetValue(n.Type(), element)
		return f
	}
	for _, child := range n.Fields() {
		c := s.node(child.Name(), child, definition, repetition)
		f.children = append(f.children, c)
		f.columns += c.columns
	}
	if t := n.Type().LogicalType(); len(f.children) == 1 && f.children[0].repeated && t != nil {
		item := f.children[0]
		switch t.Value.(type) {
		case *format.ListType:
			f.list = true
			f.bare = len(item.children) != 1 || item.name == "array" || item.name == name+"_tuple"
		case *format.MapType:
			f.keys = len(item.children) == 2
		}
	}
	return f
}

// twice returns a name that two fields of a group have; empty if there is none.
func (f *parquetNode) twice() string {
	names := map[string]bool{}
	for _, child := range f.children {
		if names[child.name] {
			return child.name
		}
		names[child.name] = true
		if name := child.twice(); name != "" {
			return name
		}
	}
	return ""
}

// typ returns the type of the field's values.
func (f *parquetNode) typ() *columns.Type {
	if f.repeated {
		return &columns.Type{Kind: columns.List, Items: f.itemType()}
	}
	return f.itemType()
}

// itemType returns the type of the field's values, or of one item if it is repeated.
func (f *parquetNode) itemType() *columns.Type {
	switch {
	case f.convert != nil:
		return f.leaf
	case f.list && f.bare:
		return &columns.Type{Kind: columns.List, Items: f.children[0].itemType()}
	case f.list:
		return &columns.Type{Kind: columns.List, Items: f.children[0].children[0].typ()}
	case f.keys:
		entry := f.children[0].children
		if entry[0].convert == nil || entry[0].repeated {
			return nil // not supported as the key of a map
		}
		return &columns.Type{Kind: columns.Map, Key: entry[0].typ(), Items: entry[1].typ()}
	}
	t := &columns.Type{Kind: columns.Struct}
	for _, child := range f.children {
		t.With(child.name, child.typ())
	}
	return t
}

// unfit is the error for a value that a row cannot hold.
type unfit struct {
	path []string // of fields, from the innermost
	why  error
}

func (u *unfit) Error() string { return u.why.Error() }

// assemble builds the field's value from the values of its columns, for one row or one item of a list. If a row cannot hold a part of it, the
// error is an *unfit, and the value is returned with null in that place.
func (f *parquetNode) assemble(columns [][]parquet.Value) (any, error) {
	first := columns[0][0]
	switch {
	case f.repeated && first.DefinitionLevel() < f.definition:
		return []any{}, nil
	case f.repeated:
		items := []any{}
		var first error
		for _, item := range splitItems(columns, f.repetition) {
			v, err := f.one(item)
			first = cmp.Or(first, err)
			items = append(items, v)
		}
		return items, first
	case f.optional && first.DefinitionLevel() < f.definition:
		return nil, nil
	}
	return f.one(columns)
}

// one builds the value of a field that is present, or of one of its items.
func (f *parquetNode) one(columns [][]parquet.Value) (any, error) {
	if f.convert != nil {
		v, err := f.convert(columns[0][0])
		if err != nil {
			return nil, &unfit{why: err}
		}
		return v, nil
	}
	if f.list || f.keys {
		items, err := f.children[0].assemble(columns)
		v, wrapped := f.unwrap(items.([]any))
		return v, cmp.Or(err, wrapped)
	}
	object := make(map[string]any, len(f.children))
	at := 0
	var first error
	for _, child := range f.children {
		v, err := child.assemble(columns[at : at+child.columns])
		if u, ok := errors.AsType[*unfit](err); ok {
			u.path = append(u.path, child.name)
		}
		first = cmp.Or(first, err)
		object[child.name] = v
		at += child.columns
	}
	return object, first
}

// unwrap removes the groups that Parquet puts around the items of lists and maps. A map whose keys are not text becomes a list of key-value
// objects.
func (f *parquetNode) unwrap(items []any) (any, error) {
	inner := f.children[0].children
	if f.list {
		for i, item := range items {
			if object, ok := item.(map[string]any); ok && !f.bare {
				items[i] = object[inner[0].name]
			}
		}
		return items, nil
	}
	pairs := !inner[0].typ().IsText()
	object := make(map[string]any, len(items))
	for i, item := range items {
		entry := item.(map[string]any)
		key, value := entry[inner[0].name], entry[inner[1].name]
		if pairs {
			items[i] = map[string]any{mapKey: key, mapValue: value}
			continue
		}
		name, ok := key.(string)
		if _, twice := object[name]; twice || !ok {
			return nil, &unfit{why: rows.Reject("repeated_field", "the key %.40q of a map is null or duplicated", name)}
		}
		object[name] = value
	}
	if pairs {
		return items, nil
	}
	return object, nil
}

// mapKey and mapValue are Parquet's names for the parts of a map's entries.
const (
	mapKey   = "key"
	mapValue = "value"
)

// splitItems divides the column values of a repeated field among its items.
func splitItems(columns [][]parquet.Value, repetition int) [][][]parquet.Value {
	var items [][][]parquet.Value
	for c, values := range columns {
		start, n := 0, 0
		for i := 1; i <= len(values); i++ {
			if i < len(values) && values[i].RepetitionLevel() > repetition {
				continue
			}
			if n == len(items) {
				items = append(items, make([][]parquet.Value, len(columns)))
			}
			items[n][c] = values[start:i]
			start, n = i, n+1
		}
	}
	return items
}

// parquetValue returns the type of a column's values, and the function that converts them to values of a row.
func parquetValue(t parquet.Type, element format.SchemaElement) (*columns.Type, func(parquet.Value) (any, error)) {
	if _, ok := element.LogicalType.Value.(*format.Float16Type); ok && t.Length() == 2 {
		return &columns.Type{Kind: columns.Float, Bits: 32}, func(v parquet.Value) (any, error) { return half(v.ByteArray()), nil }
	}
	logical := t.LogicalType()
	if logical == nil {
		return plainParquet(t, t.ConvertedType() != nil && *t.ConvertedType() == deprecated.UTF8)
	}
	switch of := logical.Value.(type) {
	case *format.StringType:
		return plainParquet(t, true)
	case *format.EnumType:
		_, convert := plainParquet(t, true)
		return &columns.Type{Kind: columns.Enum}, convert
	case *format.JsonType:
		return &columns.Type{Kind: columns.JSON}, jsonParquet
	case *format.TimestampType:
		typ := &columns.Type{Kind: columns.Timestamp, Unit: unitOf(of.Unit), UTC: of.IsAdjustedToUTC}
		return typ, func(v parquet.Value) (any, error) { return columns.TimeOf(v.Int64(), typ.Unit, typ.UTC) }
	case *format.TimeType:
		typ := &columns.Type{Kind: columns.Time, Unit: unitOf(of.Unit), UTC: of.IsAdjustedToUTC}
		return typ, func(v parquet.Value) (any, error) {
			n := v.Int64()
			if t.Kind() == parquet.Int32 {
				n = int64(v.Int32())
			}
			return text(columns.TimeText(n, typ.Unit))
		}
	case *format.DateType:
		return &columns.Type{Kind: columns.Date}, func(v parquet.Value) (any, error) { return columns.DateOf(v.Int32()) }
	case *format.DecimalType:
		if typ := columns.NewDecimal(int(of.Precision), int(of.Scale)); typ != nil {
			return typ, func(v parquet.Value) (any, error) { return decimal(v, typ.Scale) }
		}
	case *format.UUIDType:
		return &columns.Type{Kind: columns.UUID}, func(v parquet.Value) (any, error) { return text(columns.UUIDText(v.ByteArray())) }
	case *format.NullType:
		_, convert := plainParquet(t, false)
		return &columns.Type{Kind: columns.Null}, convert
	case *format.IntType:
		typ, convert := plainParquet(t, false)
		if typ.Bits = int(of.BitWidth); !of.IsSigned {
			typ.Unsigned, convert = true, unsigned(t.Kind(), typ.Bits)
		}
		return typ, convert
	}
	return plainParquet(t, false)
}

// text converts a text or an error to a value or an error.
func text(text string, err error) (any, error) {
	if err != nil {
		return nil, err
	}
	return text, nil
}

// unitOf converts a unit of time.
func unitOf(u format.TimeUnit) columns.Unit {
	switch u.Value.(type) {
	case *format.MilliSeconds:
		return columns.Millis
	case *format.MicroSeconds:
		return columns.Micros
	}
	return columns.Nanos
}

func plainParquet(t parquet.Type, text bool) (*columns.Type, func(parquet.Value) (any, error)) {
	switch t.Kind() {
	case parquet.Boolean:
		return &columns.Type{Kind: columns.Bool}, func(v parquet.Value) (any, error) { return v.Boolean(), nil }
	case parquet.Int32:
		return &columns.Type{Kind: columns.Int, Bits: 32}, func(v parquet.Value) (any, error) { return int64(v.Int32()), nil }
	case parquet.Int64:
		return &columns.Type{Kind: columns.Int, Bits: 64}, func(v parquet.Value) (any, error) { return v.Int64(), nil }
	case parquet.Int96: // timestamps of old writers
		typ := &columns.Type{Kind: columns.Timestamp, Unit: columns.Nanos, UTC: true}
		return typ, func(v parquet.Value) (any, error) { return columns.InRange(oldTimestamp(v.Int96())) }
	case parquet.Float:
		return &columns.Type{Kind: columns.Float, Bits: 32}, func(v parquet.Value) (any, error) { return float64(v.Float()), nil }
	case parquet.Double:
		return &columns.Type{Kind: columns.Float, Bits: 64}, func(v parquet.Value) (any, error) { return v.Double(), nil }
	case parquet.ByteArray, parquet.FixedLenByteArray:
	}
	if text {
		return &columns.Type{Kind: columns.Text}, func(v parquet.Value) (any, error) {
			raw := v.ByteArray()
			if at := firstInvalid(raw); at < len(raw) {
				return nil, rows.Reject(rows.ReasonEncoding, "byte 0x%02x of a string is not valid UTF-8", raw[at])
			}
			return string(raw), nil
		}
	}
	typ := &columns.Type{Kind: columns.Bytes}
	if t.Kind() == parquet.FixedLenByteArray {
		typ.Size = t.Length()
	}
	return typ, func(v parquet.Value) (any, error) { return bytes.Clone(v.ByteArray()), nil }
}

// jsonParquet decodes a value of a JSON column.
func jsonParquet(v parquet.Value) (any, error) {
	value, err := rows.DecodeValue(v.ByteArray())
	if err != nil {
		return nil, rows.Reject("not_json", "a value of a column of JSON: %v", err)
	}
	return value, nil
}

// unsigned converts unsigned integers. Those of 64 bits are a type of their own in rows, and the others fit an int64.
func unsigned(kind parquet.Kind, bits int) func(parquet.Value) (any, error) {
	return func(v parquet.Value) (any, error) {
		switch {
		case kind == parquet.Int32:
			return int64(v.Uint32()), nil
		case bits == 64:
			return v.Uint64(), nil
		}
		return v.Int64(), nil
	}
}

// half decodes a 16-bit float.
func half(raw []byte) float64 {
	bits := binary.LittleEndian.Uint16(raw)
	fraction, exponent := float64(bits&0x3ff), int(bits>>10&0x1f)
	f := math.Ldexp(fraction, -24)
	switch {
	case exponent == 31 && fraction != 0:
		return math.NaN()
	case exponent == 31:
		f = math.Inf(1)
	case exponent > 0:
		f = math.Ldexp(fraction+1024, exponent-25)
	}
	if bits>>15 == 1 {
		return -f
	}
	return f
}

// oldTimestamp decodes an Int96 timestamp: the nanoseconds of the day and the Julian day number.
func oldTimestamp(v deprecated.Int96) time.Time {
	const epoch = 2440588 // the Julian number of 1970-01-01
	nanos := int64(v[1])<<32 | int64(v[0])
	return time.Unix((int64(v[2])-epoch)*24*60*60, nanos).UTC()
}

// decimal returns a decimal of a scale.
func decimal(v parquet.Value, scale int) (any, error) {
	switch v.Kind() { //nolint:exhaustive // the others are bytes
	case parquet.Int32:
		return value.NewDecimal(int64(v.Int32()), scale), nil
	case parquet.Int64:
		return value.NewDecimal(v.Int64(), scale), nil
	}
	return columns.DecimalOf(v.ByteArray(), scale)
}
