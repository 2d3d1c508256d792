package format

import (
	"bytes"
	"io"
	"maps"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sluiceml/sluice/dsl/expr/value"
	"github.com/sluiceml/sluice/pipelines/columns"
	"github.com/sluiceml/sluice/pipelines/rows"
)

// typesIn are the types that a file says it has.
func typesIn(t *testing.T, f Typed, data []byte) *columns.Type {
	t.Helper()
	path := filepath.Join(t.TempDir(), "in")
	if err := os.WriteFile(path, data, 0o666); err != nil {
		t.Fatal(err)
	}
	typ, _, err := f.Types(t.Context(), File{Path: path, Name: "in", Size: int64(len(data))})
	if err != nil {
		t.Fatal(err)
	}
	return typ
}

func readFixture(t *testing.T, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// packed returns texts of rows that have the types of all values.
func packed(t *testing.T, list []rows.Row) (texts []string) {
	t.Helper()
	for _, r := range list {
		text, err := rows.Pack(nil, r)
		if err != nil {
			t.Fatal(err)
		}
		texts = append(texts, string(text))
	}
	return texts
}

func dec(text string) value.Decimal {
	d, err := value.ParseDecimal(text)
	if err != nil {
		panic(err)
	}
	return d
}

func timeIn(text string, in *time.Location) time.Time {
	at, err := value.ParseTime(text, in)
	if err != nil {
		panic(err)
	}
	return at
}

func instant(text string) time.Time { return timeIn(text, time.UTC) }
func local(text string) time.Time   { return timeIn(text, value.Local) }
func date(text string) time.Time    { return timeIn(text, value.Date) }

// typedRow is the first of the rows of testdata/types.parquet (make.py); the second has nothing but nulls.
var typedRow = rows.Row{
	"bool": true, "int8": int64(-8), "int32": int64(-32), "int64": int64(1) << 62, "uint8": int64(200), "uint32": int64(4_000_000_000),
	"uint64": uint64(1) << 62, "half": -0.0999755859375, "float": float64(float32(0.1)), "double": 0.1, "text": "größe", "binary": []byte{0, 0xff}, "fixed": []byte("abc"),
	"uuid": "00010203-0405-0607-0809-0a0b0c0d0e0f", "date": date("1969-12-31"), "time_ms": "01:02:03.004", "time_us": "23:59:59.999999",
	"time_ns": "23:59:59.999999999", "at_ms": instant("2024-02-29T12:30:01.005Z"), "at_us": instant("0001-01-01T00:00:00Z"), "at_ns": instant("2024-02-29T12:30:01.005000007Z"),
	"local_ms": local("2024-02-29T12:30:01.005"), "local_us": local("2024-02-29T12:30:01.005"), "local_ns": local("1969-12-31T23:59:59.999999999"),
	"decimal9": dec("-12.05"), "decimal18": dec("123456789012345678"), "decimal38": dec("-1234567890123456789012345678.0123456789"),
	"struct": map[string]any{"a": int64(1), "b": map[string]any{"at": local("2024-02-29T12:30:01.005")}},
	"list":   []any{dec("0.5"), nil, dec("-1000.0")}, "empty": []any{},
	"structs": []any{
		map[string]any{"x": 0.5, "y": []any{"p", "q"}}, map[string]any{"x": nil, "y": []any{}}, nil, map[string]any{"x": 1.0, "y": nil},
	},
	"map": map[string]any{"k": date("2000-01-01"), "l": nil},
	"pairs": []any{
		map[string]any{"key": int64(1), "value": "a"}, map[string]any{"key": int64(2), "value": nil},
	},
}

// What another program has written is read with its types, and what is written has the same types and values again.
func TestTypesSurvive(t *testing.T) {
	data := readFixture(t, "testdata/types.parquet")
	typ := typesIn(t, parquetFile{}, data)
	nulls := rows.Row{}
	for name := range typedRow {
		nulls[name] = nil
	}
	want := []rows.Row{typedRow, nulls}
	read := func(what string, f Format, data []byte, want []rows.Row) {
		t.Helper()
		got, reasons := rowsIn(t, f, data, true)
		if diff := cmp.Diff(packed(t, want), packed(t, got)); diff != "" || reasons != nil {
			t.Errorf("%s, %q (-want +got):\n%s", what, reasons, diff)
		}
	}
	read("the fixture", parquetFile{}, data, want)

	again := written(t, openParquetShard, typ, want)
	read("Parquet of it", parquetFile{}, again, want)
	if diff := cmp.Diff(typ, typesIn(t, parquetFile{}, again)); diff != "" {
		t.Errorf("types of Parquet (-fixture +written):\n%s", diff)
	}
	last := written(t, openParquetShard, typ, nil)
	if diff := cmp.Diff(typ, typesIn(t, parquetFile{}, last)); diff != "" {
		t.Errorf("types of Parquet without rows (-fixture +written):\n%s", diff)
	}

	asAvro := written(t, openAvroShard, typ, want)
	inAvro := maps.Clone(typedRow)
	inAvro["uint64"] = dec("4611686018427387904") // it has no unsigned integers
	read("Avro of it", avroFile{}, asAvro, []rows.Row{inAvro, nulls})
	types := typesIn(t, avroFile{}, asAvro)
	for _, name := range []string{ // which Avro has too
		"bool", "int32", "int64", "float", "double", "text", "binary", "fixed", "uuid", "date", "time_ms", "time_us", "at_ms", "at_us", "at_ns",
		"local_ms", "local_us", "local_ns", "decimal9", "decimal38", "struct", "list", "structs", "map",
	} {
		if diff := cmp.Diff(typ.Fields[name], types.Fields[name]); diff != "" {
			t.Errorf("%s in Avro (-fixture +written):\n%s", name, diff)
		}
	}

	old := readFixture(t, "testdata/int96.parquet")
	read("int96", parquetFile{}, old, []rows.Row{{"int96": instant("2024-02-29T12:30:01.005Z")}})
	read("int96, written", parquetFile{}, written(t, openParquetShard, typesIn(t, parquetFile{}, old), []rows.Row{{"int96": instant("2024-02-29T12:30:01.005Z")}}),
		[]rows.Row{{"int96": instant("2024-02-29T12:30:01.005Z")}})
}

// Avro's own types survive too.
func TestAvroTypesSurvive(t *testing.T) {
	data := avroData(t)
	list, _ := rowsIn(t, avroFile{}, data, false)
	typ := typesIn(t, avroFile{}, data)
	seen := columns.Seen{}
	for _, r := range list {
		seen.Add(r)
	}
	again := written(t, openAvroShard, seen.Type(typ), list)
	got, _ := rowsIn(t, avroFile{}, again, false)
	if diff := cmp.Diff(packed(t, list), packed(t, got)); diff != "" {
		t.Errorf("-before +after:\n%s", diff)
	}
	after := typesIn(t, avroFile{}, again)
	for name, before := range typ.Fields {
		if before != nil && before.Kind != columns.Null && name != "tree" && !cmp.Equal(before, after.Fields[name]) {
			t.Errorf("%s is a %+v, and was a %+v", name, after.Fields[name], before)
		}
	}
}

// written writes rows of a type.
func written(t *testing.T, open func(w io.Writer, row *columns.Type) (ShardWriter, error), row *columns.Type, list []rows.Row) []byte {
	t.Helper()
	var out bytes.Buffer
	w, err := open(&out, row)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range list {
		if err := w.Write(r); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}
