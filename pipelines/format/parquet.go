package format

import (
	"encoding/base64"
	"math"
	"math/big"
	"time"

	"github.com/google/uuid"
	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/deprecated"
	"github.com/parquet-go/parquet-go/format"

	"github.com/sluiceml/sluice/pipelines/rowjson"
	"github.com/sluiceml/sluice/pipelines/rows"
)

// parquetNode is a field of a Parquet schema, with what assembling rows from columns needs.
type parquetNode struct {
	name     string
	optional bool
	repeated bool
	// definition and repetition are the levels that tell whether the field is there, and where one of its items begins.
	definition, repetition int
	// children of a group; a leaf has none, and convert then.
	children []*parquetNode
	convert  func(parquet.Value) (any, error)
	columns  int
	list     bool
	keys     bool // a map
}

// newParquetNode describes a field below a parent with these levels.
func newParquetNode(name string, n parquet.Node, definition, repetition int) *parquetNode {
	f := &parquetNode{name: name, optional: n.Optional(), repeated: n.Repeated()}
	if f.optional || f.repeated {
		definition++
	}
	if f.repeated {
		repetition++
	}
	f.definition, f.repetition = definition, repetition
	if n.Leaf() {
		f.columns, f.convert = 1, parquetValue(n.Type())
		return f
	}
	for _, child := range n.Fields() {
		c := newParquetNode(child.Name(), child, definition, repetition)
		f.children = append(f.children, c)
		f.columns += c.columns
	}
	if t := n.Type().LogicalType(); len(f.children) == 1 && f.children[0].repeated && t != nil {
		inner := len(f.children[0].children)
		switch t.Value.(type) {
		case *format.ListType:
			f.list = inner <= 1
		case *format.MapType:
			f.keys = inner == 2
		}
	}
	return f
}

// assemble makes the field's value of the values of its columns, of one row or of one item of a list.
func (f *parquetNode) assemble(columns [][]parquet.Value) (any, error) {
	first := columns[0][0]
	switch {
	case f.repeated && first.DefinitionLevel() < f.definition:
		return []any{}, nil
	case f.repeated:
		items := []any{}
		for _, item := range splitItems(columns, f.repetition) {
			v, err := f.one(item)
			if err != nil {
				return nil, err
			}
			items = append(items, v)
		}
		return items, nil
	case f.optional && first.DefinitionLevel() < f.definition:
		return nil, nil
	}
	return f.one(columns)
}

// one makes the value of a field that is there, or of one item of it.
func (f *parquetNode) one(columns [][]parquet.Value) (any, error) {
	if f.convert != nil {
		return f.convert(columns[0][0])
	}
	if f.list || f.keys {
		items, err := f.children[0].assemble(columns)
		if err != nil {
			return nil, err
		}
		return f.unwrap(items.([]any)), nil
	}
	object := make(map[string]any, len(f.children))
	at := 0
	for _, child := range f.children {
		v, err := child.assemble(columns[at : at+child.columns])
		if err != nil {
			return nil, err
		}
		object[child.name] = v
		at += child.columns
	}
	return object, nil
}

// unwrap takes the groups away that Parquet puts around the items of lists and maps. A map whose keys are not texts stays a list.
func (f *parquetNode) unwrap(items []any) any {
	inner := f.children[0].children
	if f.list {
		for i, item := range items {
			if object, ok := item.(map[string]any); ok && len(inner) == 1 {
				items[i] = object[inner[0].name]
			}
		}
		return items
	}
	object := make(map[string]any, len(items))
	for _, item := range items {
		entry := item.(map[string]any)
		key, ok := entry[inner[0].name].(string)
		if !ok {
			return items
		}
		object[key] = entry[inner[1].name]
	}
	return object
}

// splitItems divides the values of a repeated field's columns among its items.
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

// parquetValue returns how values of a type become JSON's: times as RFC 3339, decimals as texts, bytes in base64.
func parquetValue(t parquet.Type) func(parquet.Value) (any, error) {
	logical := t.LogicalType()
	if logical == nil {
		return plainParquet(t.Kind(), t.ConvertedType() != nil && *t.ConvertedType() == deprecated.UTF8)
	}
	switch of := logical.Value.(type) {
	case *format.StringType, *format.EnumType:
		return plainParquet(t.Kind(), true)
	case *format.JsonType:
		return jsonParquet
	case *format.TimestampType:
		return func(v parquet.Value) (any, error) { return timestamp(v.Int64(), of.Unit), nil }
	case *format.DateType:
		return func(v parquet.Value) (any, error) {
			return time.Unix(int64(v.Int32())*24*60*60, 0).UTC().Format(time.DateOnly), nil
		}
	case *format.DecimalType:
		return func(v parquet.Value) (any, error) { return decimal(v, int(of.Scale)), nil }
	case *format.UUIDType:
		return func(v parquet.Value) (any, error) {
			id, err := uuid.FromBytes(v.ByteArray())
			return id.String(), err
		}
	case *format.IntType:
		if !of.IsSigned {
			return unsigned(t.Kind())
		}
	}
	return plainParquet(t.Kind(), false)
}

func plainParquet(kind parquet.Kind, text bool) func(parquet.Value) (any, error) {
	switch kind {
	case parquet.Boolean:
		return func(v parquet.Value) (any, error) { return v.Boolean(), nil }
	case parquet.Int32:
		return func(v parquet.Value) (any, error) { return int64(v.Int32()), nil }
	case parquet.Int64:
		return func(v parquet.Value) (any, error) { return v.Int64(), nil }
	case parquet.Int96: // timestamps of old writers
		return func(v parquet.Value) (any, error) { return oldTimestamp(v.Int96()), nil }
	case parquet.Float:
		return func(v parquet.Value) (any, error) { return finite(float64(v.Float())) }
	case parquet.Double:
		return func(v parquet.Value) (any, error) { return finite(v.Double()) }
	case parquet.ByteArray, parquet.FixedLenByteArray:
	}
	if text {
		return func(v parquet.Value) (any, error) {
			raw := v.ByteArray()
			if at := firstInvalid(raw); at < len(raw) {
				return nil, rows.Reject(rows.ReasonEncoding, "byte 0x%02x of a text is not valid UTF-8", raw[at])
			}
			return string(raw), nil
		}
	}
	return func(v parquet.Value) (any, error) { return base64.StdEncoding.EncodeToString(v.ByteArray()), nil }
}

// jsonParquet reads the value that a text is the JSON of.
func jsonParquet(v parquet.Value) (any, error) {
	value, err := rowjson.Decode(v.ByteArray())
	if err != nil {
		return nil, rows.Reject("not_json", "a value of a column of JSON: %v", err)
	}
	return value, nil
}

func unsigned(kind parquet.Kind) func(parquet.Value) (any, error) {
	return func(v parquet.Value) (any, error) {
		if kind == parquet.Int32 {
			return int64(v.Uint32()), nil
		}
		if n := v.Uint64(); n > math.MaxInt64 {
			return nil, rows.Reject("number_range", "the number %d does not fit 64 bits with a sign", n)
		}
		return v.Int64(), nil
	}
}

// finite rejects the numbers that JSON has no form for.
func finite(f float64) (any, error) {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return nil, rows.Reject("number_range", "%v is no number that a row can hold", f)
	}
	return f, nil
}

func timestamp(n int64, unit format.TimeUnit) string {
	switch unit.Value.(type) {
	case *format.MilliSeconds:
		return time.UnixMilli(n).UTC().Format(time.RFC3339Nano)
	case *format.MicroSeconds:
		return time.UnixMicro(n).UTC().Format(time.RFC3339Nano)
	}
	return time.Unix(n/1e9, n%1e9).UTC().Format(time.RFC3339Nano)
}

// oldTimestamp reads the nanoseconds of a day and its Julian number.
func oldTimestamp(v deprecated.Int96) string {
	const epoch = 2440588 // the Julian number of 1970-01-01
	nanos := int64(v[1])<<32 | int64(v[0])
	return time.Unix((int64(v[2])-epoch)*24*60*60, nanos).UTC().Format(time.RFC3339Nano)
}

// decimal writes an unscaled number with its point.
func decimal(v parquet.Value, scale int) string {
	n := new(big.Int)
	switch v.Kind() {
	case parquet.Int32:
		n.SetInt64(int64(v.Int32()))
	case parquet.Int64:
		n.SetInt64(v.Int64())
	default: // two's complement, big endian
		raw := v.ByteArray()
		n.SetBytes(raw)
		if len(raw) > 0 && raw[0] >= 0x80 {
			n.Sub(n, new(big.Int).Lsh(big.NewInt(1), uint(8*len(raw))))
		}
	}
	if scale <= 0 {
		return n.String()
	}
	unit := new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(scale)), nil)
	return new(big.Rat).SetFrac(n, unit).FloatString(scale)
}
