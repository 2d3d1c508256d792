package avro

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sluiceml/sluice/dsl/expr/value"
	"github.com/sluiceml/sluice/pipelines/columns"
	"github.com/sluiceml/sluice/pipelines/rows"
)

// readAll reads a file: its rows, the reasons of what is none, and what is broken.
func readAll(data []byte) (list []rows.Row, reasons []string, err error) {
	r, err := NewReader(bytes.NewReader(data))
	if err != nil {
		return nil, nil, err
	}
	for {
		row, rejected, err := r.Next()
		switch why, _ := errors.AsType[*rows.Rejection](rejected); {
		case errors.Is(err, io.EOF):
			return list, reasons, nil
		case err != nil:
			return list, reasons, err
		case rejected != nil:
			reasons = append(reasons, why.Reason)
		default:
			list = append(list, row)
		}
	}
}

func fixture(t testing.TB, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// What another program has written (testdata/make.py) is read as it was meant, in every codec, and nothing of it is lost silently when it
// is cut off.
func TestFixtures(t *testing.T) {
	want := rows.Row{
		"null": nil, "bool": true, "int": int64(-1), "long": int64(1) << 62, "float": 0.5, "double": 0.1, "bytes": "AP8=", "string": "größe",
		"fixed": "YWJj", "fixed_again": "eHl6", "enum": "B", "array": []any{int64(1), nil}, "map": map[string]any{"k": map[string]any{"n": int64(3)}},
		"either": "x", "tree": map[string]any{"name": "a", "under": []any{map[string]any{"name": "b", "under": []any{}}}},
		"decimal": "-123456789012345678901234.05", "decimal_fixed": "-0.007", "uuid": "00000000-0000-0000-0000-000000000001",
		"date": "1969-12-31", "time_millis": "01:02:03.004", "time_micros": "23:59:59.999999",
		"timestamp_millis": "2024-02-29T12:30:01.005Z", "timestamp_micros": "0004-02-29T12:30:01.005Z",
		"timestamp_nanos": "2024-02-29T12:30:01.005000007Z", "local_millis": "2024-02-29T12:30:01.005", "local_micros": "2024-02-29T12:30:01.005",
	}
	either := []any{nil, "x", int64(7), map[string]any{"n": int64(1)}}
	for _, codec := range []string{"null", "deflate", "snappy", "zstandard", "bzip2"} {
		t.Run(codec, func(t *testing.T) {
			data := fixture(t, codec+".avro")
			got, reasons, err := readAll(data)
			if len(got) != 25 || reasons != nil || err != nil {
				t.Fatalf("%d rows, %q, %v", len(got), reasons, err)
			}
			if diff := cmp.Diff(want, rows.Row(value.JSONObject(got[1]))); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
			for name, typ := range map[string]string{
				"bytes": "bytes", "decimal": "decimal", "date": "date", "timestamp_nanos": "timestamp", "local_micros": "local timestamp", "uuid": "string",
			} {
				if is := value.TypeName(got[1][name]); is != typ {
					t.Errorf("%s is of type %s, want %s", name, is, typ)
				}
			}
			for i, r := range got {
				if diff := cmp.Diff(either[i%4], r["either"]); diff != "" || r["int"] != int64(-i) {
					t.Errorf("row %d is that of %v; its union (-want +got):\n%s", i, r["int"], diff)
				}
			}
			whole := 0
			for end := 0; end < len(data); end += 1 + len(data)/600 {
				if got, _, err := readAll(data[:end]); err == nil {
					if whole++; len(got) == 25 {
						t.Errorf("cut at %d of %d it is taken for whole", end, len(data))
					}
				}
			}
			if whole > 4 { // between two blocks it is a file of fewer
				t.Errorf("cut at %d places it is taken for whole", whole)
			}
		})
	}
}

// The types of columns are those of the schema.
func TestType(t *testing.T) {
	r, err := NewReader(bytes.NewReader(fixture(t, "null.avro")))
	if err != nil {
		t.Fatal(err)
	}
	got := r.Type()
	text := &columns.Type{Kind: columns.Text}
	want := map[string]*columns.Type{
		"int": {Kind: columns.Int, Bits: 32}, "long": {Kind: columns.Int, Bits: 64}, "float": {Kind: columns.Float, Bits: 32}, "string": text,
		"fixed_again": {Kind: columns.Bytes, Size: 3}, "enum": {Kind: columns.Enum, Symbols: []string{"A", "B"}},
		"array": {Kind: columns.List, Items: &columns.Type{Kind: columns.Int, Bits: 32}}, "either": nil, "null": {Kind: columns.Null},
		"map":     {Kind: columns.Map, Key: text, Items: &columns.Type{Kind: columns.Struct, Fields: map[string]*columns.Type{"n": {Kind: columns.Int, Bits: 64}}}},
		"tree":    {Kind: columns.Struct, Fields: map[string]*columns.Type{"name": text, "under": {Kind: columns.List}}},
		"decimal": {Kind: columns.Decimal, Precision: 30, Scale: 2}, "uuid": {Kind: columns.UUID}, "date": {Kind: columns.Date},
		"time_micros":  {Kind: columns.Time, Unit: columns.Micros},
		"local_millis": {Kind: columns.Timestamp, Unit: columns.Millis}, "timestamp_nanos": {Kind: columns.Timestamp, Unit: columns.Nanos, UTC: true},
	}
	for name, typ := range want {
		if diff := cmp.Diff(typ, got.Fields[name]); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// avroFile is a file with one block.
func avroFile(schema string, count int64, block ...byte) []byte {
	data := []byte("Obj\x01\x02\x16avro.schema")
	data = binary.AppendVarint(data, int64(len(schema)))
	data = append(append(data, schema...), 0)
	sync := bytes.Repeat([]byte{7}, 16)
	data = binary.AppendVarint(append(data, sync...), count)
	data = binary.AppendVarint(data, int64(len(block)))
	return slices.Concat(data, block, sync)
}

// record is the schema of a record with a field x of a type.
func record(typ string) string {
	return `{"type": "record", "name": "r", "fields": [{"name": "x", "type": ` + typ + `}]}`
}

// Schemas that files have, also such as are not quite right, and values that rows cannot hold.
func TestValues(t *testing.T) {
	tests := []struct {
		name, schema string
		block        []byte
		want         any
		reason       string
	}{
		{"a union as the type of an object", record(`{"type": ["null", "int"]}`), []byte{2, 4}, int64(2), ""},
		{"a namespace of null", `{"type": "record", "name": "r", "namespace": null, "fields": [{"name": "x", "type": "int"}]}`, []byte{4}, int64(2), ""},
		{"an invalid decimal", record(`{"type": "bytes", "logicalType": "decimal", "precision": 2, "scale": 3}`), []byte{2, 7}, "Bw==", ""},
		{"a decimal without digits", record(`{"type": "bytes", "logicalType": "decimal"}`), []byte{2, 7}, "Bw==", ""},
		{"an empty decimal", record(`{"type": "bytes", "logicalType": "decimal", "precision": 5, "scale": 3}`), []byte{0}, "0.000", ""},
		{"a time on what it cannot be on", record(`{"type": "int", "logicalType": "timestamp-millis"}`), []byte{4}, int64(2), ""},
		{"a uuid of bytes", record(`{"type": "fixed", "name": "u", "size": 16, "logicalType": "uuid"}`), bytes.Repeat([]byte{1}, 16), "01010101-0101-0101-0101-010101010101", ""},
		{"a fixed of nothing", record(`{"type": "fixed", "name": "u", "size": 0}`), nil, nil, "damaged"}, // a record of no bytes
		{"NaN", record(`"float"`), []byte{0, 0, 0xc0, 0x7f}, nil, ""},
		{"no UTF-8", record(`"string"`), []byte{2, 0xff}, nil, "bad_encoding"},
		{"a key twice", record(`{"type": "map", "values": "int"}`), []byte{4, 2, 'a', 2, 2, 'a', 4, 0}, nil, "repeated_field"},
		{"no time of the day", record(`{"type": "int", "logicalType": "time-millis"}`), []byte{1}, nil, "number_range"},
		{"a day in the year 10000", record(`{"type": "int", "logicalType": "date"}`), binary.AppendVarint(nil, 2932897), nil, "number_range"},
		{"blocks with their sizes", record(`{"type": "array", "items": "int"}`), []byte{1, 2, 8, 2, 6, 0}, []any{int64(4), int64(3)}, ""},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			list, reasons, err := readAll(avroFile(test.schema, 1, test.block...))
			switch {
			case test.reason == "damaged":
				if err == nil {
					t.Errorf("got %v, %q", list, reasons)
				}
			case test.reason != "":
				if !cmp.Equal(reasons, []string{test.reason}) || err != nil {
					t.Errorf("got %v, %q, %v; want it rejected as %s", list, reasons, err, test.reason)
				}
			case err != nil || len(list) != 1:
				t.Errorf("got %v, %q, %v", list, reasons, err)
			default:
				if diff := cmp.Diff(test.want, value.JSON(list[0]["x"])); diff != "" {
					t.Errorf("-want +got:\n%s", diff)
				}
			}
		})
	}
}

// A value that a row cannot hold is reported with its column, and the other values of the row are shown.
func TestColumnIsNamed(t *testing.T) {
	schema := `{"type": "record", "name": "r", "fields": [{"name": "id", "type": "int"}, {"name": "in", "type": ` + record(`{"type": "array", "items": {"type": "int", "logicalType": "date"}}`) +
		`}]}`
	schema = strings.Replace(schema, `"name": "r", "fields": [{"name": "x"`, `"name": "i", "fields": [{"name": "x"`, 1)
	r, err := NewReader(bytes.NewReader(avroFile(schema, 1, append(binary.AppendVarint([]byte{4, 4, 0}, 2932897), 0)...)))
	if err != nil {
		t.Fatal(err)
	}
	row, rejected, err := r.Next()
	want := rows.Row{"id": int64(2), "in": map[string]any{"x": []any{"1970-01-01", nil}}}
	if diff := cmp.Diff(want, rows.Row(value.JSONObject(row))); diff != "" || err != nil {
		t.Errorf("%v, -want +got:\n%s", err, diff)
	}
	if why := fmt.Sprint(rejected); !strings.HasPrefix(why, "number_range: column in.x: a time is in the year 10000") {
		t.Errorf("rejected: %s", why)
	}
}

// Files that claim more than they have are broken, at little cost.
func TestBounds(t *testing.T) {
	nothing := `{"type": "record", "name": "e", "fields": []}`
	doubled := nothing
	for i := range 40 { // each has two fields of the one before
		before := fmt.Sprintf("N%d", i-1)
		if i == 0 {
			before = "e"
		}
		doubled = fmt.Sprintf(`{"type": "record", "name": "N%d", "fields": [{"name": "a", "type": %s}, {"name": "b", "type": %q}]}`, i, doubled, before)
	}
	many := binary.AppendVarint(nil, 1<<40)
	tests := []struct {
		name, schema string
		count        int64
		block        []byte
	}{
		{"records of no bytes", nothing, 1 << 60, nil},
		{"an array of nothing", record(`{"type": "array", "items": "null"}`), 1, append(slices.Clone(many), 0)},
		{"an array of records of nothing", record(`{"type": "array", "items": ` + nothing + `}`), 1, append(slices.Clone(many), 0)},
		{"an array that is cut off", record(`{"type": "array", "items": "int"}`), 1, append(slices.Clone(many), 2)},
		{"a map that is cut off", record(`{"type": "map", "values": "int"}`), 1, append(slices.Clone(many), 2, 'a', 2)},
		{"the least number of items", record(`{"type": "array", "items": "int"}`), 1, binary.AppendVarint(nil, -1<<63)},
		{"a long text", record(`"string"`), 1, binary.AppendVarint(nil, 1<<62)},
		{"a text of less than nothing", record(`"string"`), 1, []byte{1}},
		{"a large fixed", record(`{"type": "fixed", "name": "f", "size": 60000000}`), 1, []byte{1}},
		{"a record in itself", `{"type": "record", "name": "r", "fields": [{"name": "x", "type": "r"}]}`, 1, []byte{1}},
		{"a record in itself by a union", `{"type": "record", "name": "r", "fields": [{"name": "x", "type": ["null", "r"]}]}`, 1, bytes.Repeat([]byte{2}, 5000)},
		{"lists in lists", `{"type": "record", "name": "r", "fields": [{"name": "x", "type": {"type": "array", "items": "r"}}]}`, 1, bytes.Repeat([]byte{2}, 5000)},
		{"many empty records by few names", doubled, 1, []byte{1}},
		{"no such symbol", record(`{"type": "enum", "name": "e", "symbols": ["A"]}`), 1, []byte{2}},
		{"no such branch", record(`["null"]`), 1, []byte{2}},
		{"an int of 33 bits", record(`"int"`), 1, binary.AppendVarint(nil, 1<<32)},
		{"bytes that are left", record(`"int"`), 1, []byte{2, 2}},
		{"an unknown type", record(`"what"`), 1, []byte{2}},
		{"a deep schema", record(strings.Repeat(`{"type":"array","items":`, 600) + `"int"` + strings.Repeat("}", 600)), 1, []byte{2}},
		{"a field twice", `{"type": "record", "name": "r", "fields": [{"name": "x", "type": "int"}, {"name": "x", "type": "int"}]}`, 1, []byte{2, 2}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			data := avroFile(test.schema, test.count, test.block...)
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			list, reasons, err := readAll(data)
			if runtime.ReadMemStats(&after); err == nil {
				t.Errorf("got %d rows, %q", len(list), reasons)
			}
			if took := after.TotalAlloc - before.TotalAlloc; took > 32<<20 {
				t.Errorf("%d bytes of a file took %d bytes of memory", len(data), took)
			}
		})
	}
}

// A row that is too long is rejected, and the next one is read: it is not held to find its end.
func TestTooLong(t *testing.T) {
	schema := record(`{"type": "array", "items": {"type": "record", "name": "e", "fields": [{"name": "n", "type": "int"}]}}`)
	const n = 5 << 18
	block := binary.AppendVarint(nil, n)
	block = append(append(block, bytes.Repeat([]byte{2}, n)...), 0, 2, 2, 0)
	list, reasons, err := readAll(avroFile(schema, 2, block...))
	if !cmp.Equal(reasons, []string{"too_long"}) || len(list) != 1 || err != nil {
		t.Errorf("got %d rows, %q, %v", len(list), reasons, err)
	}
}

func FuzzRead(f *testing.F) {
	f.Add(fixture(f, "null.avro"))
	f.Add(fixture(f, "zstandard.avro"))
	f.Add(avroFile(record(`{"type": "array", "items": "int"}`), 1, 1, 2, 8, 2, 6, 0))
	f.Add(avroFile(record(`["null", {"type": "map", "values": "r"}]`), 1, 2, 2, 2, 'a', 0, 0))
	f.Fuzz(func(t *testing.T, data []byte) {
		list, _, _ := readAll(data)
		for _, r := range list {
			if _, err := rows.Encode(r); err != nil {
				t.Errorf("%v: %v", r, err)
			}
		}
		if r, err := NewReader(bytes.NewReader(data)); err == nil {
			r.Type()
		}
	})
}
