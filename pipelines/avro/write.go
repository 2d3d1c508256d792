package avro

import (
	"bytes"
	"compress/flate"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"math/big"
	"regexp"
	"slices"

	"github.com/sluiceml/sluice/pipelines/columns"
	"github.com/sluiceml/sluice/pipelines/rows"
)

// blockBytes is the uncompressed size at which a block is written. It is constant, since a file must depend only on its rows.
const blockBytes = 256 << 10

// Writer writes rows to a file, compressed with deflate, which all readers support.
type Writer struct {
	w     io.Writer
	row   *columns.Type
	names []string
	sync  []byte
	block []byte
	count int64
}

// NewWriter writes the header of a file with rows of the given type.
func NewWriter(w io.Writer, row *columns.Type) (*Writer, error) {
	out := &Writer{w: w, row: &columns.Type{Kind: columns.Struct}, names: slices.Sorted(maps.Keys(row.Fields))}
	for _, name := range out.names {
		if !aName.MatchString(name) {
			return nil, fmt.Errorf("the column %.40q: names in Avro consist of ASCII letters, digits and _; rename it with MapToFields", name)
		}
		out.row.With(name, encodable(row.Fields[name]))
	}
	s := schemaWriter{used: map[string]bool{}}
	schema, err := json.Marshal(s.schema(out.row, "row"))
	if err != nil {
		return nil, err
	}
	sync := sha256.Sum256(schema)
	out.sync = sync[:16]
	head := append([]byte("Obj\x01"), 4) // two entries
	for _, text := range []string{"avro.codec", "deflate", "avro.schema", string(schema)} {
		head = appendText(head, text)
	}
	_, err = w.Write(append(append(head, 0), out.sync...))
	return out, err
}

// aName matches valid Avro names.
var aName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// encodable returns the type as which Avro can store values of a type.
func encodable(t *columns.Type) *columns.Type {
	out := *t
	switch t.Kind { //nolint:exhaustive // of the others there are the same
	case columns.Int:
		if t.Unsigned && t.Bits == 64 {
			return columns.NewDecimal(20, 0)
		}
	case columns.Time:
		if t.Unit == columns.Nanos {
			return &columns.Type{Kind: columns.Text}
		}
	case columns.Enum:
		if t.Symbols == nil || slices.ContainsFunc(t.Symbols, func(s string) bool { return !aName.MatchString(s) }) {
			return &columns.Type{Kind: columns.Text}
		}
	case columns.List:
		out.Items = encodable(t.Items)
	case columns.Map:
		if !t.Key.IsText() {
			entry := &columns.Type{Kind: columns.Struct, Fields: map[string]*columns.Type{"key": t.Key, "value": t.Items}}
			return encodable(&columns.Type{Kind: columns.List, Items: entry})
		}
		out.Key, out.Items = &columns.Type{Kind: columns.Text}, encodable(t.Items)
	case columns.Struct:
		out.Fields = nil
		for name, field := range t.Fields {
			if !aName.MatchString(name) {
				return &columns.Type{Kind: columns.JSON}
			}
			out.With(name, encodable(field))
		}
	}
	return &out
}

// schemaWriter builds the schemas of types. Records, enums and fixed types need unique names.
type schemaWriter struct{ used map[string]bool }

// object is a JSON object; encoding/json sorts its keys.
type object map[string]any

func (s schemaWriter) name(name string) string {
	unique := name
	for n := 2; s.used[unique]; n++ {
		unique = fmt.Sprintf("%s_%d", name, n)
	}
	s.used[unique] = true
	return unique
}

// schema returns the schema of a type's non-null values; name is that of the field they are in.
func (s schemaWriter) schema(t *columns.Type, name string) any {
	switch t.Kind {
	case columns.Bool:
		return "boolean"
	case columns.Int:
		if t.Bits < 32 || t.Bits == 32 && !t.Unsigned {
			return "int"
		}
		return "long"
	case columns.Float:
		if t.Bits < 64 {
			return "float"
		}
		return "double"
	case columns.JSON:
		return object{"type": "string", "logicalType": logicalJSON}
	case columns.UUID:
		return object{"type": "string", "logicalType": "uuid"}
	case columns.Enum:
		return object{"type": "enum", "name": s.name(name), "symbols": t.Symbols}
	case columns.Bytes:
		if t.Size > 0 {
			return object{"type": "fixed", "name": s.name(name), "size": t.Size}
		}
		return "bytes"
	case columns.Decimal:
		return object{"type": "bytes", "logicalType": "decimal", "precision": t.Precision, "scale": t.Scale}
	case columns.Timestamp, columns.Date, columns.Time:
		return logicalTime(t)
	case columns.List:
		return object{"type": "array", "items": s.orNull(t.Items, name)}
	case columns.Map:
		return object{"type": "map", "values": s.orNull(t.Items, name)}
	case columns.Struct:
		record := object{"type": "record", "name": s.name(name)}
		fields := []object{}
		for _, field := range slices.Sorted(maps.Keys(t.Fields)) {
			fields = append(fields, object{"name": field, "type": s.orNull(t.Fields[field], field), "default": nil})
		}
		record["fields"] = fields
		return record
	case columns.Text, columns.Null: // Seen.Type leaves Null only for keys of maps without entries
	}
	return "string"
}

// orNull returns the schema of values that may be null. null comes first in the union, since the default is null.
func (s schemaWriter) orNull(t *columns.Type, name string) any {
	return []any{"null", s.schema(t, name)}
}

// logicalTime returns the schema of a date or time.
func logicalTime(t *columns.Type) any {
	for name, known := range logicalTimes {
		if known.typ.Kind == t.Kind && known.typ.Unit == t.Unit && (known.typ.UTC == t.UTC || t.Kind == columns.Time) {
			typ := "long"
			if known.kind == kindInt {
				typ = "int"
			}
			return object{"type": typ, "logicalType": name}
		}
	}
	return "string"
}

// Write writes a row. It returns a *columns.Misfit if a value does not have the type of its column.
func (w *Writer) Write(r rows.Row) error {
	for _, name := range w.names {
		var ok bool
		if w.block, ok = appendOrNull(w.block, w.row.Fields[name], r[name]); !ok {
			return &columns.Misfit{Column: name, Value: r[name]}
		}
	}
	if len(w.names) == 0 {
		return errors.New("the rows have no fields, and an Avro file cannot store the number of such rows")
	}
	if w.count++; len(w.block) < blockBytes {
		return nil
	}
	return w.flush()
}

// Close writes the last block. It does not close the underlying writer.
func (w *Writer) Close() error {
	if w.count == 0 {
		return nil
	}
	return w.flush()
}

func (w *Writer) flush() error {
	var packed bytes.Buffer
	z, err := flate.NewWriter(&packed, flate.DefaultCompression)
	if err != nil {
		return err
	}
	_, err = z.Write(w.block)
	if err = errors.Join(err, z.Close()); err != nil {
		return err
	}
	head := binary.AppendVarint(binary.AppendVarint(nil, w.count), int64(packed.Len()))
	w.block, w.count = w.block[:0], 0
	_, err = w.w.Write(slices.Concat(head, packed.Bytes(), w.sync))
	return err
}

func appendText(to []byte, text string) []byte {
	return append(binary.AppendVarint(to, int64(len(text))), text...)
}

func appendOrNull(to []byte, t *columns.Type, v any) (_ []byte, ok bool) {
	if v == nil {
		return append(to, 0), true
	}
	return appendValue(append(to, 2), t, v)
}

// appendValue appends a value that is not null. ok is false if it does not fit the type.
func appendValue(to []byte, t *columns.Type, v any) (_ []byte, ok bool) {
	raw, ok := t.Physical(v)
	if !ok {
		return to, false
	}
	switch raw := raw.(type) {
	case bool:
		if raw {
			return append(to, 1), true
		}
		return append(to, 0), true
	case int64:
		return binary.AppendVarint(to, raw), true
	case float64:
		if t.Bits < 64 {
			return binary.LittleEndian.AppendUint32(to, math.Float32bits(float32(raw))), true
		}
		return binary.LittleEndian.AppendUint64(to, math.Float64bits(raw)), true
	case string:
		if t.Kind == columns.Enum {
			return binary.AppendVarint(to, int64(slices.Index(t.Symbols, raw))), true
		}
		return appendText(to, raw), true
	case []byte:
		switch {
		case t.Kind == columns.UUID:
			return appendText(to, v.(string)), true
		case t.Size == 0:
			to = binary.AppendVarint(to, int64(len(raw)))
		}
		return append(to, raw...), true
	case *big.Int:
		number := columns.TwosComplement(raw, raw.BitLen()/8+1)
		return append(binary.AppendVarint(to, int64(len(number))), number...), true
	case []any:
		return appendItems(to, len(raw), func(to []byte, i int) ([]byte, bool) { return appendOrNull(to, t.Items, raw[i]) })
	}
	object, _ := raw.(map[string]any)
	if t.Kind == columns.Map {
		keys := slices.Sorted(maps.Keys(object))
		return appendItems(to, len(keys), func(to []byte, i int) ([]byte, bool) {
			return appendOrNull(appendText(to, keys[i]), t.Items, object[keys[i]])
		})
	}
	known := 0
	for _, name := range slices.Sorted(maps.Keys(t.Fields)) {
		if _, there := object[name]; there {
			known++
		}
		if to, ok = appendOrNull(to, t.Fields[name], object[name]); !ok {
			return to, false
		}
	}
	return to, known == len(object)
}

// appendItems appends the items of a list or a map as one block.
func appendItems(to []byte, n int, item func(to []byte, i int) ([]byte, bool)) (_ []byte, ok bool) {
	if n > 0 {
		to = binary.AppendVarint(to, int64(n))
	}
	for i := range n {
		if to, ok = item(to, i); !ok {
			return to, false
		}
	}
	return append(to, 0), true
}
