package format

import (
	"errors"
	"io"
	"maps"
	"math/big"
	"slices"

	"github.com/parquet-go/parquet-go"

	"github.com/sluiceml/sluice/pipelines/columns"
	"github.com/sluiceml/sluice/pipelines/rows"
)

// groupBytes is about how much data makes a row group. It is constant, since a file must depend only on its rows. A writer holds one row
// group in memory.
const groupBytes = 32 << 20

// parquetShard writes a Parquet file.
type parquetShard struct {
	out    *parquet.GenericWriter[any]
	fields []*parquetField
	// values are the values of the current row, by leaf of the schema.
	values [][]parquet.Value
	row    parquet.Row
	size   int // of the current row group, about
}

// parquetField is a field of the schema that is written. It is optional, unless it is the key of a map.
type parquetField struct {
	name string
	typ  *columns.Type
	// parts are the fields of a struct, the items of a list, or the key and the value of a map.
	parts []*parquetField
	// first is the index of its first leaf, and leaves the number of its leaves.
	first, leaves int
}

func openParquetShard(w io.Writer, row *columns.Type) (ShardWriter, error) {
	root := &parquetField{typ: row}
	root.addParts()
	s := &parquetShard{fields: root.parts, values: make([][]parquet.Value, root.leaves)}
	config, err := parquet.NewWriterConfig(
		parquet.NewSchema("row", parquetNodeOf(row)), parquet.Compression(&parquet.Zstd), parquet.CreatedBy("sluice", "1", ""),
		parquet.DataPageStatistics(true),
	)
	if err != nil {
		return nil, err
	}
	s.out = parquet.NewGenericWriter[any](w, config)
	return s, nil
}

// addParts adds the parts of a field, in the library's order.
func (f *parquetField) addParts() {
	add := func(name string, t *columns.Type) {
		part := &parquetField{name: name, typ: t, first: f.first + f.leaves}
		part.addParts()
		f.parts, f.leaves = append(f.parts, part), f.leaves+part.leaves
	}
	switch f.typ.Kind {
	case columns.Struct:
		for _, name := range slices.Sorted(maps.Keys(f.typ.Fields)) {
			add(name, f.typ.Fields[name])
		}
	case columns.Map:
		add(mapKey, f.typ.Key)
		add(mapValue, f.typ.Items)
	case columns.List:
		add("element", f.typ.Items)
	default:
		f.leaves = 1
	}
}

// parquetNodeOf returns the node for the non-null values of a type.
func parquetNodeOf(t *columns.Type) parquet.Node {
	switch t.Kind {
	case columns.Bool:
		return parquet.Leaf(parquet.BooleanType)
	case columns.Int:
		if t.Unsigned {
			return parquet.Uint(t.Bits)
		}
		return parquet.Int(t.Bits)
	case columns.Float:
		if t.Bits < 64 {
			return parquet.Leaf(parquet.FloatType)
		}
		return parquet.Leaf(parquet.DoubleType)
	case columns.Text:
		return parquet.String()
	case columns.Enum:
		return parquet.Enum()
	case columns.UUID:
		return parquet.UUID()
	case columns.Bytes:
		if t.Size > 0 {
			return parquet.Leaf(parquet.FixedLenByteArrayType(t.Size))
		}
		return parquet.Leaf(parquet.ByteArrayType)
	case columns.Timestamp:
		return parquet.TimestampAdjusted(parquetUnit(t.Unit), t.UTC)
	case columns.Time:
		return parquet.TimeAdjusted(parquetUnit(t.Unit), t.UTC)
	case columns.Date:
		return parquet.Date()
	case columns.Decimal:
		return parquet.Decimal(t.Scale, t.Precision, decimalStorage(t.Precision))
	case columns.List:
		return parquet.List(parquet.Optional(parquetNodeOf(t.Items)))
	case columns.Map:
		return parquet.Map(parquetNodeOf(t.Key), parquet.Optional(parquetNodeOf(t.Items)))
	case columns.Struct:
		group := parquet.Group{}
		for name, field := range t.Fields {
			group[name] = parquet.Optional(parquetNodeOf(field))
		}
		return group
	case columns.JSON, columns.Null: // Seen.Type leaves Null only for keys of maps without entries
	}
	return parquet.JSON()
}

func parquetUnit(u columns.Unit) parquet.TimeUnit {
	switch u {
	case columns.Millis:
		return parquet.Millisecond
	case columns.Micros:
		return parquet.Microsecond
	case columns.Nanos:
	}
	return parquet.Nanosecond
}

// decimalStorage returns the smallest physical type for numbers of so many digits.
func decimalStorage(digits int) parquet.Type {
	switch {
	case digits <= 9:
		return parquet.Int32Type
	case digits <= 18:
		return parquet.Int64Type
	}
	most := new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(digits)), nil)
	return parquet.FixedLenByteArrayType(most.BitLen()/8 + 1)
}

func (s *parquetShard) Write(r rows.Row) (err error) {
	if len(s.fields) == 0 {
		return errors.New("the rows have no fields, and a Parquet file cannot store the number of such rows")
	}
	for i := range s.values {
		s.values[i] = s.values[i][:0]
	}
	for _, f := range s.fields {
		if !s.add(f, r[f.name], 0, 0, 0) {
			return &columns.Misfit{Column: f.name, Value: r[f.name]}
		}
	}
	s.row = s.row[:0]
	for _, values := range s.values {
		s.row = append(s.row, values...)
	}
	if _, err := s.out.WriteRows([]parquet.Row{s.row}); err != nil {
		return err
	}
	if s.size < groupBytes {
		return nil
	}
	s.size = 0
	return s.out.Flush()
}

func (s *parquetShard) Close() error { return s.out.Close() }

// add adds a value. It returns false if the value does not fit the type. repetition and definition are the levels of Parquet; depth is how
// many lists the value is in.
func (s *parquetShard) add(f *parquetField, v any, repetition, definition, depth int) bool {
	if v == nil {
		s.null(f, repetition, definition)
		return true
	}
	return s.present(f, v, repetition, definition+1, depth)
}

// present adds a value that is not null.
func (s *parquetShard) present(f *parquetField, v any, repetition, definition, depth int) bool {
	raw, ok := f.typ.Physical(v)
	switch {
	case !ok:
		return false
	case f.typ.Kind == columns.Struct:
		return s.fieldsOf(f, v.(map[string]any), repetition, definition, depth)
	case f.typ.Kind != columns.List && f.typ.Kind != columns.Map:
		s.emit(f, parquetRaw(f.typ, raw), repetition, definition)
		return true
	}
	n := 0
	each := func(add func(repetition int) bool) bool {
		if n++; n > 1 {
			repetition = depth + 1
		}
		return add(repetition)
	}
	if f.typ.Kind == columns.List {
		for _, item := range v.([]any) {
			if !each(func(at int) bool { return s.add(f.parts[0], item, at, definition+1, depth+1) }) {
				return false
			}
		}
	} else {
		for key, item := range f.typ.Entries(v) {
			if key == nil || !each(func(at int) bool {
				return s.present(f.parts[0], key, at, definition+1, depth+1) && s.add(f.parts[1], item, at, definition+1, depth+1)
			}) {
				return false
			}
		}
	}
	if n == 0 {
		s.null(f, repetition, definition)
	}
	return true
}

// fieldsOf adds the fields of an object. It returns false if the object has other fields.
func (s *parquetShard) fieldsOf(f *parquetField, object map[string]any, repetition, definition, depth int) bool {
	known := 0
	for _, part := range f.parts {
		v, ok := object[part.name]
		if ok {
			known++
		}
		if !s.add(part, v, repetition, definition, depth) {
			return false
		}
	}
	return known == len(object)
}

// null adds a null to each leaf of a field.
func (s *parquetShard) null(f *parquetField, repetition, definition int) {
	for i := f.first; i < f.first+f.leaves; i++ {
		s.values[i] = append(s.values[i], parquet.NullValue().Level(repetition, definition, i))
	}
	s.size += 8
}

func (s *parquetShard) emit(f *parquetField, v parquet.Value, repetition, definition int) {
	s.size += 8
	if kind := v.Kind(); kind == parquet.ByteArray || kind == parquet.FixedLenByteArray {
		s.size += len(v.ByteArray())
	}
	s.values[f.first] = append(s.values[f.first], v.Level(repetition, definition, f.first))
}

// parquetRaw converts a value of a leaf.
func parquetRaw(t *columns.Type, raw any) parquet.Value {
	switch v := raw.(type) {
	case bool:
		return parquet.BooleanValue(v)
	case int64:
		if t.Kind == columns.Date || t.Kind == columns.Int && t.Bits <= 32 || t.Kind == columns.Time && t.Unit == columns.Millis {
			return parquet.Int32Value(int32(v))
		}
		return parquet.Int64Value(v)
	case float64:
		if t.Bits < 64 {
			return parquet.FloatValue(float32(v))
		}
		return parquet.DoubleValue(v)
	case string:
		return parquet.ByteArrayValue([]byte(v))
	case []byte:
		if t.Size > 0 || t.Kind == columns.UUID {
			return parquet.FixedLenByteArrayValue(v)
		}
		return parquet.ByteArrayValue(v)
	case *big.Int:
		switch storage := decimalStorage(t.Precision); storage.Kind() {
		case parquet.Int32:
			return parquet.Int32Value(int32(v.Int64()))
		case parquet.Int64:
			return parquet.Int64Value(v.Int64())
		default:
			return parquet.FixedLenByteArrayValue(columns.TwosComplement(v, storage.Length()))
		}
	}
	return parquet.NullValue()
}
