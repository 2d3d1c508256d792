package pipelines_test

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/fault"
)

// datasetOf runs a chain and returns the folder of its dataset.
func datasetOf(t *testing.T, input, transforms string) (string, spec.CleanOutput) {
	t.Helper()
	dir := t.TempDir()
	out := mustRun(t, job(dir, chain(t, input, transforms)))
	return filepath.Join(dir, "out", "all"), out
}

// The same prices give the same rows, whatever file they are in.
func TestTypedPrices(t *testing.T) {
	prices := []string{"9.98", "9.99", "10.00", "100.00", "-20.00", "999.99"}
	var lines, csv strings.Builder
	csv.WriteString("id,price,at,day\n")
	for i, p := range prices {
		fmt.Fprintf(&lines, `{"id": %d, "price": %s, "at": "2024-01-0%dT00:00:00Z", "day": "2024-01-0%[3]d"}`+"\n", i, p, i+1)
		fmt.Fprintf(&csv, "%d,%s,2024-01-0%dT00:00:00Z,2024-01-0%[3]d\n", i, p, i+1)
	}
	fmt.Fprintf(&lines, `{"id": 6, "price": null, "at": null, "day": null}`+"\n")
	csv.WriteString("6,,,\n")
	input := write(t, map[string]string{"in.jsonl": lines.String(), "in.csv": csv.String()})
	const types = `types: {id: int, price: "decimal(10, 2)", at: timestamp, day: date}`
	asParquet, _ := datasetOf(t, input, "[{type: ReadFromCsv, config: {path: INPUT/in.csv, "+types+"}}, {type: WriteToParquet}]")
	asAvro, _ := datasetOf(t, input, "[{type: ReadFromJson, config: {path: INPUT/in.jsonl, "+types+"}}, {type: WriteToAvro}]")
	for name, read := range map[string]string{
		"Parquet": "{type: ReadFromParquet, config: {path: " + asParquet + "/*}}", "Avro": "{type: ReadFromAvro, config: {path: " + asAvro + "/*}}",
		"CSV": "{type: ReadFromCsv, config: {path: INPUT/in.csv, " + types + "}}", "JSON": "{type: ReadFromJson, config: {path: INPUT/in.jsonl, " + types + "}}",
	} {
		t.Run(name, func(t *testing.T) {
			dir, out := datasetOf(t, input, "["+read+`, {type: Filter, config: {keep: "row.price != null && row.price > 9.99"}}, {type: WriteToJson}]`)
			got := linesOf(t, dir)
			want := []string{
				`{"at":"2024-01-03T00:00:00Z","day":"2024-01-03","id":2,"price":"10.00"}`, `{"at":"2024-01-04T00:00:00Z","day":"2024-01-04","id":3,"price":"100.00"}`,
				`{"at":"2024-01-06T00:00:00Z","day":"2024-01-06","id":5,"price":"999.99"}`,
			}
			if diff := cmp.Diff(want, got); diff != "" || out.Rows.Rejected != 0 {
				t.Errorf("%d rejected (-want +got):\n%s", out.Rows.Rejected, diff)
			}
			p := out.Profile.Columns["price"]
			if *p.Min != 10 || *p.Max != 999.99 || !slices.Equal(p.Types, []string{"decimal"}) || !slices.Equal(out.Profile.Columns["day"].Types, []string{"date"}) {
				t.Errorf("the profile is %v to %v of %q", *p.Min, *p.Max, p.Types)
			}
		})
	}
	asCSV, _ := datasetOf(t, input, "[{type: ReadFromParquet, config: {path: "+asParquet+"/*}}, {type: WriteToCsv}]")
	again, _ := datasetOf(t, input, "[{type: ReadFromCsv, config: {path: "+asCSV+"/*, "+types+"}}, {type: WriteToParquet}]")
	for _, dir := range []string{asParquet, again} {
		lines, _ := datasetOf(t, input, "[{type: ReadFromParquet, config: {path: "+dir+"/*}}, {type: MapToFields, config: {fields: {price: row.price}}}, {type: Filter, config: {keep: row.price != null}}, {type: WriteToText}]")
		if got := linesOf(t, lines); !slices.Equal(got, []string{"-20.00", "10.00", "100.00", "9.98", "9.99", "999.99"}) {
			t.Errorf("%q", got)
		}
	}
	bad := write(t, map[string]string{"in.csv": "price,n\n9.999,1\n1e400,2\nx,3\n1.5,99999999999999999999\n1.5,4\n"})
	_, out := datasetOf(t, bad, `[{type: ReadFromCsv, config: {path: INPUT/*, types: {price: "decimal(5, 2)", n: int}}}, {type: WriteToJson}]`)
	if want := (spec.Rows{Read: 5, Kept: 1, Rejected: 4}); out.Rows != want || out.Reasons["ReadFromCsv/type"] != 4 {
		t.Errorf("%+v, %v", out.Rows, out.Reasons)
	}
}

// linesOf returns the lines of the files of a folder, sorted.
func linesOf(t *testing.T, dir string) []string {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")...)
	}
	slices.Sort(all)
	return all
}

// emptyRecord is a schema of Avro, of 41 bytes.
const emptyRecord = `{"type":"record","name":"r","fields": []}`

// A file that cannot be read fails the step, unless the reader says otherwise; then its rows are counted where that is known.
func TestUnreadable(t *testing.T) {
	rows, _ := datasetOf(t, write(t, map[string]string{"in": strings.Join(manyRows(3000), "")}), "[{type: ReadFromJson, config: {path: INPUT/*}}, {type: WriteToParquet}]")
	whole, err := os.ReadFile(filepath.Join(rows, "part-00000-of-00001.parquet"))
	if err != nil {
		t.Fatal(err)
	}
	flipped := bytes.Clone(whole)
	for i := 100; i < len(flipped)/2; i++ {
		flipped[i] ^= 0x5a
	}
	for name, test := range map[string]struct {
		reader, file, text string
		rejected           int64
	}{
		"cut Parquet":     {"ReadFromParquet", "b.parquet", string(whole[:len(whole)-100]), 1},
		"corrupt Parquet": {"ReadFromParquet", "b.parquet", string(flipped), 3000},
		"cut gzip":        {"ReadFromJson", "b.jsonl", zipped(t, `{"a": 1}`+"\n", `{"a": 2}`+"\n")[:40], 1},
		"an Avro codec":   {"ReadFromAvro", "b.avro", "Obj\x01\x04\x14avro.codec\x04xx\x16avro.schema\x52" + emptyRecord + "\x00" + strings.Repeat("x", 16) + "\x02\x00" + strings.Repeat("x", 16), 1},
		"an open array":   {"ReadFromJson", "b.json", `[{"a": 1}, {"a": `, 1},
		"a bad array":     {"ReadFromJson", "b.json", `[{"a": 1} {"a": 2}]`, 1},
		"two arrays":      {"ReadFromJson", "b.json", `[{"a": 1}][{"a": 2}]`, 1},
		"a long element":  {"ReadFromJson", "b.json", `[{"a": "` + strings.Repeat("x", 33<<20) + `"}]`, 1},
	} {
		t.Run(name, func(t *testing.T) {
			input := write(t, map[string]string{test.file: test.text})
			read := func(more string) string {
				return "[{type: " + test.reader + ", config: {path: INPUT/*" + more + "}}, {type: WriteToJson}]"
			}
			_, err := run(t, job(t.TempDir(), chain(t, input, read(""))))
			if errorType(err) != fault.User || !strings.Contains(err.Error(), test.file+" cannot be read: ") || !strings.Contains(err.Error(), "on_unreadable: reject") {
				t.Errorf("got %v", err)
			}
			_, out := datasetOf(t, input, read(", on_unreadable: reject"))
			if out.Rows.Rejected != test.rejected || out.Reasons[test.reader+"/damaged"] != test.rejected || out.Rows.Read != out.Rows.Kept+test.rejected {
				t.Errorf("%+v, %v", out.Rows, out.Reasons)
			}
		})
	}
}

// Columns in the names of folders, as Hive has them, become fields; and so does the name of a file, where that is wanted.
func TestPartitions(t *testing.T) {
	input := write(t, map[string]string{
		"year=2023/kind=a%20b/1.jsonl": `{"x": 1}` + "\n", "year=2024/kind=__HIVE_DEFAULT_PARTITION__/2.jsonl": `{"x": 2, "year": "own"}` + "\n",
		"year=2024/kind=7/3.jsonl": `{"x": 3}` + "\n",
	})
	dir, _ := datasetOf(t, input, "[{type: ReadFromJson, config: {path: INPUT/**/*.jsonl, filename: file}}, {type: WriteToJson}]")
	want := []string{
		`{"file":"year=2023/kind=a%20b/1.jsonl","kind":"a b","x":1,"year":2023}`,
		`{"file":"year=2024/kind=7/3.jsonl","kind":"7","x":3,"year":2024}`,
		`{"file":"year=2024/kind=__HIVE_DEFAULT_PARTITION__/2.jsonl","kind":null,"x":2,"year":"own"}`,
	}
	if diff := cmp.Diff(want, linesOf(t, dir)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	inside, _ := datasetOf(t, filepath.Join(input, "year=2023"), "[{type: ReadFromJson, config: {path: INPUT/*/*.jsonl}}, {type: WriteToJson}]")
	if got := linesOf(t, inside); len(got) != 1 || got[0] != `{"kind":"a b","x":1}` { // where the dataset is does not matter
		t.Errorf("%q", got)
	}
	text, _ := datasetOf(t, input, "[{type: ReadFromText, config: {path: INPUT/**/1.jsonl}}, {type: WriteToText}]") // lines have one field
	if got := linesOf(t, text); len(got) != 1 || got[0] != `{"x": 1}` {
		t.Errorf("%q", got)
	}
}

// Folders behind links are read too, each once on every way, and a link that leads back to where it is ends.
func TestLinkedFolders(t *testing.T) {
	input := write(t, map[string]string{"real/in.jsonl": `{"x": 1}` + "\n", "data/own.jsonl": `{"x": 2}` + "\n"})
	for link, to := range map[string]string{"data/linked": "../real", "data/back": "..", "data/gone.txt": "nowhere"} {
		if err := os.Symlink(to, filepath.Join(input, link)); err != nil {
			t.Fatal(err)
		}
	}
	dir, _ := datasetOf(t, input, "[{type: ReadFromJson, config: {path: INPUT/data/**/*.jsonl, filename: file}}, {type: WriteToJson}]")
	got := linesOf(t, dir)
	want := []string{`{"file":"back/real/in.jsonl","x":1}`, `{"file":"linked/in.jsonl","x":1}`, `{"file":"own.jsonl","x":2}`}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// JSON arrays are read as the rows in them, from wherever the brackets are.
func TestJSONArrays(t *testing.T) {
	large := "[" + strings.TrimSuffix(strings.Repeat(`{"x": 0, "text": "`+strings.Repeat("words ", 1000)+"\"},\n", 1000), ",\n") + "]"
	input := write(t, map[string]string{
		"a.json": " \n[\n  {\"x\": 1, \"s\": \"],[{\\\"\"},\n  {\"x\": [2, [3]]}, 7\n]\n", "b.json": `[{"x": 4}]`, "c.json": `[]`, "d.json": large, "e.jsonl": `{"x": 5}` + "\n", "f.jsonl": "[1]\n{\"x\": 6}\n[2]\n",
	})
	dir, out := datasetOf(t, input, "[{type: ReadFromJson, config: {path: INPUT/*}}, {type: Filter, config: {keep: row.x != 0}}, {type: WriteToJson}]")
	want := []string{`{"s":"],[{\"","x":1}`, `{"x":4}`, `{"x":5}`, `{"x":6}`, `{"x":[2,[3]]}`}
	if diff := cmp.Diff(want, linesOf(t, dir)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if rows := (spec.Rows{Read: 1008, Kept: 5, Dropped: 1000, Rejected: 3}); out.Rows != rows || out.Reasons["ReadFromJson/not_object"] != 3 {
		t.Errorf("%+v, %v", out.Rows, out.Reasons)
	}
}

// Archives are refused by their names: as text they would be rows of nonsense.
func TestArchivesAreRefused(t *testing.T) {
	var tarred, zip1 bytes.Buffer
	w := tar.NewWriter(&tarred)
	if err := w.WriteHeader(&tar.Header{Name: "in.txt", Size: 2, Mode: 0o600}); err != nil {
		t.Fatal(err)
	}
	_, _ = w.Write([]byte("a\n"))
	z := zip.NewWriter(&zip1)
	if _, err := z.Create("in.txt"); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"xz": "\xfd7zXZ\x00 and more", "zip": zip1.String(), "tar": tarred.String(), "a tar": zipped(t, tarred.String())} {
		_, err := run(t, job(t.TempDir(), chain(t, write(t, map[string]string{"in.txt": text}), "[{type: ReadFromText, config: {path: INPUT/*}}, {type: WriteToText}]")))
		if errorType(err) != fault.User || !strings.Contains(err.Error(), "in.txt: it is ") || !strings.Contains(err.Error(), name+" archive") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Where objects have different fields, and files different units and scales, the column has them all.
func TestColumnsOfSeveral(t *testing.T) {
	input := write(t, map[string]string{
		"a.csv": "price,n\n1.5,1\n", "b.csv": "price,n\n12.125,2\n", "in.jsonl": `{"list": [{"a": 1}, {"a": 2, "b": "x"}]}` + "\n" + `{"list": [{"b": "y"}]}` + "\n",
	})
	a, _ := datasetOf(t, input, `[{type: ReadFromCsv, config: {path: INPUT/a.csv, types: {price: "decimal(4, 1)"}}}, {type: WriteToParquet}]`)
	b, _ := datasetOf(t, input, `[{type: ReadFromCsv, config: {path: INPUT/b.csv, types: {price: "decimal(5, 3)"}}}, {type: WriteToParquet}]`)
	both, _ := datasetOf(t, input, "[{type: ReadFromParquet, config: {path: ["+a+"/*, "+b+"/*]}}, {type: WriteToParquet}]")
	file := filepath.Join(both, "part-00000-of-00001.parquet")
	if got := columnTypes(t, file, "ReadFromParquet")["price"]; got.Precision != 6 || got.Scale != 3 {
		t.Errorf("the price of both is %+v", got)
	}
	list, _ := datasetOf(t, input, "[{type: ReadFromJson, config: {path: INPUT/in.jsonl}}, {type: WriteToParquet}]")
	items := columnTypes(t, filepath.Join(list, "part-00000-of-00001.parquet"), "ReadFromParquet")["list"].Items
	if names := slices.Sorted(maps.Keys(items.Fields)); !slices.Equal(names, []string{"a", "b"}) {
		t.Errorf("the items have the fields %q", names)
	}
}

// Rows that do not fit `types` are rejected as they are, columns in folders have types too, and what is at the edges of a type ends no step.
func TestTypesAtTheEdges(t *testing.T) {
	input := write(t, map[string]string{
		"in.jsonl":                         `{"k":"a","d":"x","x":1.5,"y":[1e3],"ok":"true"}` + "\n",
		"day=2024-01-31/month=01/in.jsonl": `{"a": 1}` + "\n", "day=2024-02-01/month=12/in.jsonl": `{"a": 2}` + "\n",
		"in.csv": "at,big,bytes,f\n9999-12-31T23:59:59-01:00,1,,\n2024-01-01T00:00:00Z,1" + strings.Repeat("0", 310) + ",YQ==,0\n2024-01-01T00:00:00Z,,YR==,\n,,,1e-400\n,,,NaN\n",
	})
	for range 3 {
		dir := t.TempDir()
		mustRun(t, job(dir, chain(t, input, "[{type: ReadFromJson, config: {path: INPUT/in.jsonl, types: {d: date, ok: bool}}}, {type: WriteToJson}]")))
		rejected := lines(t, filepath.Join(dir, "rejected", "*"))
		if len(rejected) != 1 || rejected[0]["element"] != `{"k":"a","d":"x","x":1.5,"y":[1e3],"ok":"true"}` {
			t.Fatalf("%v", rejected)
		}
	}
	folders, _ := datasetOf(t, input, `[{type: ReadFromJson, config: {path: "INPUT/*/*/*.jsonl", types: {day: date}}}, {type: Filter, config: {keep: 'row.day > timestamp("2024-01-31T00:00:00Z") && row.month > 1'}}, {type: WriteToJson}]`)
	if diff := cmp.Diff([]string{`{"a":2,"day":"2024-02-01","month":12}`}, linesOf(t, folders)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	texts, _ := datasetOf(t, input, `[{type: ReadFromJson, config: {path: "INPUT/*/*/*.jsonl", types: {month: string}}}, {type: WriteToJson}]`)
	if got := linesOf(t, texts); len(got) != 2 || got[0] != `{"a":1,"day":"2024-01-31","month":"01"}` {
		t.Errorf("%q", got)
	}
	edges, out := datasetOf(t, input, `[{type: ReadFromCsv, config: {path: INPUT/in.csv, types: {at: timestamp, big: "decimal(400, 0)", bytes: bytes, f: double}}}, {type: WriteToParquet}]`)
	if out.Rows.Kept != 2 || out.Reasons["ReadFromCsv/type"] != 3 {
		t.Errorf("%+v %v", out.Rows, out.Reasons)
	}
	again, _ := datasetOf(t, edges, `[{type: ReadFromParquet, config: {path: INPUT/*}}, {type: Filter, config: {keep: 'row.big == null || row.big > 1e300'}}, {type: MapToFields, config: {append: true, fields: {none: row.bytes == null}}}, {type: WriteToJson}]`)
	if got := linesOf(t, again); len(got) != 2 || !strings.Contains(got[0]+got[1], `"bytes":"YQ=="`) || !strings.Contains(got[0]+got[1], `"none":true`) {
		t.Errorf("%q", got)
	}
}

// A column of decimals and of doubles is one of doubles, with NaN.
func TestDecimalsAndDoubles(t *testing.T) {
	input := write(t, map[string]string{"a.csv": "v\n2.50\n", "b.csv": "v\n1.5\nNaN\n"})
	a, _ := datasetOf(t, input, `[{type: ReadFromCsv, config: {path: INPUT/a.csv, types: {v: "decimal(10, 2)"}}}, {type: WriteToParquet}]`)
	b, _ := datasetOf(t, input, `[{type: ReadFromCsv, config: {path: INPUT/b.csv, types: {v: double}}}, {type: WriteToParquet}]`)
	both, _ := datasetOf(t, input, `[{type: ReadFromParquet, config: {path: ["`+a+`/*", "`+b+`/*"]}}, {type: WriteToParquet}]`)
	dir, _ := datasetOf(t, both, `[{type: ReadFromParquet, config: {path: INPUT/*}}, {type: Filter, config: {keep: row.v != row.v || row.v > 2.0}}, {type: MapToFields, config: {fields: {v: string(row.v)}}}, {type: WriteToJson}]`)
	if diff := cmp.Diff([]string{`{"v":"2.5"}`, `{"v":"NaN"}`}, linesOf(t, dir)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}
