package pipelines_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/parquet-go/parquet-go"

	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/pipelines"
	"github.com/sluiceml/sluice/pipelines/columns"
	"github.com/sluiceml/sluice/pipelines/format"
)

// columnTypes are the types of the columns in a file of a dataset.
func columnTypes(t *testing.T, path, reader string) map[string]*columns.Type {
	t.Helper()
	r, err := format.CompileReader(spec.Transform{Type: reader, Config: []byte(`{"path": "x"}`)})
	if err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	typ, _, err := r.Format.(format.Typed).Types(t.Context(), format.File{Path: path, Name: "x", Size: info.Size()})
	if err != nil || typ == nil {
		t.Fatal(typ, err)
	}
	return typ.Fields
}

// typed is a file with a column of each type, which another program has written.
const typed = "format/testdata"

// TestTypesSurvive: a column that no transform computes has the type it was read with, and what one computes that of its values.
func TestTypesSurvive(t *testing.T) {
	before := columnTypes(t, typed+"/types.parquet", "ReadFromParquet")
	same := func(names ...string) map[string]*columns.Type {
		want := map[string]*columns.Type{}
		for _, name := range names {
			want[name] = before[name]
		}
		return want
	}
	all := func() map[string]*columns.Type {
		want := map[string]*columns.Type{}
		for name, typ := range before {
			want[name] = typ
		}
		return want
	}
	text := &columns.Type{Kind: columns.Text}
	computed := all()
	delete(computed, "int8")
	computed["renamed"], computed["date"], computed["text"], computed["later"] = before["local_ms"], text, text, text
	asked := all()
	asked["date"] = text
	exploded := all()
	exploded["list"] = before["list"].Items
	tests := []struct {
		name, transforms string
		want             map[string]*columns.Type
	}{
		{"all", `
- {type: Filter, config: {keep: row.bool != false}}
- {type: Sample, config: {fraction: 1.0}}
- {type: Deduplicate}`, all()},
		{"none stay", "\n- {type: Filter, config: {keep: 'false'}}", all()},
		{"computed", `
- {type: Filter, config: {keep: row.text != null}}
- {type: MapToFields, config: {append: true, fields: {renamed: row.local_ms, date: 'string(row.date) + "?"', later: 'string(row.at_ms).substring(0, 3)'}, drop: [int8]}}
- {type: HtmlToText, config: {fields: [text]}}`, computed},
		{"chosen", "\n- {type: MapToFields, config: {fields: {at_ms: row.at_ms, struct: row.struct}}}", same("at_ms", "struct")},
		{"asked of a program", "\n- {type: Exec, config: {command: [sed, s/1969-12-31/unknown/]}}", asked},
		{"exploded", "\n- {type: Filter, config: {keep: row.list != null}}\n- {type: Explode, config: {fields: [list]}}", exploded},
		{"combined", "\n- {type: Combine, config: {group_by: [date], combine: {n: {fn: count}}}}", map[string]*columns.Type{
			"date": before["date"], "n": {Kind: columns.Int, Bits: 64},
		}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			j := job(t.TempDir(), chain(t, typed, "- {type: ReadFromParquet, config: {path: INPUT/types.parquet}}"+test.transforms+"\n- {type: WriteToParquet}"))
			j.Programs = pipelines.Programs{Dir: t.TempDir(), Env: []string{"PATH=" + os.Getenv("PATH")}}
			mustRun(t, j)
			got := columnTypes(t, filepath.Join(j.OutputDir, "all", "part-00000-of-00001.parquet"), "ReadFromParquet")
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

// TestTypesOfSeveral: where other rows come to the same sink, the values decide; and Avro goes the same way.
func TestTypesOfSeveral(t *testing.T) {
	input := write(t, map[string]string{"in.jsonl": `{"date": "2024-01-01"}` + "\n"})
	both := job(t.TempDir(), chain(t, input, `
- {type: ReadFromJson, name: a, config: {path: INPUT/*}}
- {type: ReadFromParquet, name: b, config: {path: `+typed+`/types.parquet}}
- {type: MapToFields, name: c, input: [b], config: {fields: {date: row.date}}}
- {type: WriteToParquet, input: [a, c]}
- {type: WriteToAvro, name: alone, input: [c], config: {path: alone}}`))
	both.Spec.Type = "composite"
	mustRun(t, both)
	if got := columnTypes(t, filepath.Join(both.OutputDir, "all", "part-00000-of-00001.parquet"), "ReadFromParquet"); got["date"].Kind != columns.Text {
		t.Errorf("of both: %+v", got["date"])
	}
	if got := columnTypes(t, filepath.Join(both.OutputDir, "alone", "part-00000-of-00001.avro"), "ReadFromAvro"); got["date"].Kind != columns.Date {
		t.Errorf("alone: %+v", got["date"])
	}
}

// TestTypesOfNothing: a file whose column is null in all rows, and one that has no rows, have no say in the types of the columns. Such files
// come from programs that derive types from values.
func TestTypesOfNothing(t *testing.T) {
	input := t.TempDir()
	writeParquet := func(name string, at parquet.Node, rows ...parquet.Row) {
		t.Helper()
		var out bytes.Buffer
		w := parquet.NewGenericWriter[any](&out, parquet.NewSchema("row", parquet.Group{"at": parquet.Optional(at)}))
		if _, err := w.WriteRows(rows); err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(w.Close(), os.WriteFile(filepath.Join(input, name), out.Bytes(), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	instant := parquet.Timestamp(parquet.Microsecond)
	writeParquet("a.parquet", parquet.Leaf(parquet.NullType), parquet.Row{parquet.NullValue().Level(0, 0, 0)})
	writeParquet("b.parquet", instant, parquet.Row{parquet.Int64Value(7).Level(0, 1, 0)})
	writeParquet("c.parquet", parquet.String())
	for _, c := range []struct {
		files string
		want  *columns.Type
	}{
		{"*", &columns.Type{Kind: columns.Timestamp, Unit: columns.Micros, UTC: true}},
		{"a*", &columns.Type{Kind: columns.Text}},
		{"c*", &columns.Type{Kind: columns.Text}},
	} {
		j := job(t.TempDir(), chain(t, input, "- {type: ReadFromParquet, config: {path: INPUT/"+c.files+"}}\n- {type: WriteToParquet}"))
		mustRun(t, j)
		got := columnTypes(t, filepath.Join(j.OutputDir, "all", "part-00000-of-00001.parquet"), "ReadFromParquet")
		if diff := cmp.Diff(map[string]*columns.Type{"at": c.want}, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.files, diff)
		}
	}
}

// TestColumnsAreTyped: what comes from JSON is written with types of its own, and not as text.
func TestColumnsAreTyped(t *testing.T) {
	input := write(t, map[string]string{"in.jsonl": `{"bool": true, "int": 1, "double": 0.5, "text": "a", "list": [1, 2], "object": {"a": 1, "b": "x"}, "mixed": 1, "either": "a"}
{"bool": false, "int": 2, "double": 1.5, "text": "b", "list": [], "object": {"a": 2, "b": "y"}, "mixed": 0.5, "either": 1}
`})
	j := job(t.TempDir(), chain(t, input, `
- {type: ReadFromJson, name: a, config: {path: INPUT/*}}
- {type: WriteToParquet, input: [a], config: {path: parquet}}
- {type: WriteToAvro, input: [a], config: {path: avro}}`))
	j.Spec.Type = "composite"
	mustRun(t, j)
	whole, double, text := &columns.Type{Kind: columns.Int, Bits: 64}, &columns.Type{Kind: columns.Float, Bits: 64}, &columns.Type{Kind: columns.Text}
	want := map[string]*columns.Type{
		"bool": {Kind: columns.Bool}, "int": whole, "double": double, "text": text, "mixed": double, "either": {Kind: columns.JSON},
		"list":   {Kind: columns.List, Items: whole},
		"object": {Kind: columns.Struct, Fields: map[string]*columns.Type{"a": whole, "b": text}},
	}
	for format, reader := range map[string]string{"parquet": "ReadFromParquet", "avro": "ReadFromAvro"} {
		got := columnTypes(t, filepath.Join(j.OutputDir, format, "part-00000-of-00001."+format), reader)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", format, diff)
		}
	}
}
