package pipelines_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/fault"
	"github.com/sluiceml/sluice/pipelines/format"
)

// wholeNumber is a whole number written as a double, which it is in a column with others that are.
var wholeNumber = regexp.MustCompile(`(\d)\.0([,}\]])`)

// rewrite writes rows in a format, and what was written as JSON lines again. The rows of both are returned as JSON, sorted.
func rewrite(t testing.TB, rows []map[string]any, writer, reader string) (before, after []string) {
	t.Helper()
	text := ""
	for _, r := range rows {
		text += asJSON(t, r) + "\n"
	}
	dir := t.TempDir()
	input := write(t, map[string]string{"in.jsonl": text})
	first := job(dir, chain(t, input, "- {type: ReadFromJson, config: {path: INPUT/*.jsonl}}\n- "+writer))
	if got := mustRun(t, first).Rows; got.Kept != int64(len(rows)) {
		t.Fatalf("%d rows became %+v", len(rows), got)
	}
	second := job(t.TempDir(), chain(t, first.OutputDir, "- "+reader+"\n- {type: WriteToJson}"))
	mustRun(t, second)
	for _, r := range rows {
		before = append(before, wholeNumber.ReplaceAllString(asJSON(t, r), "$1$2"))
	}
	text = read(t, filepath.Join(second.OutputDir, "all", "part-00000-of-00001.jsonl"))
	for line := range strings.Lines(text) {
		after = append(after, wholeNumber.ReplaceAllString(strings.TrimSuffix(line, "\n"), "$1$2"))
	}
	slices.Sort(before)
	slices.Sort(after)
	return before, after
}

func read(t testing.TB, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func asJSON(t testing.TB, v any) string {
	t.Helper()
	var text strings.Builder
	e := json.NewEncoder(&text)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		t.Fatal(err)
	}
	return strings.TrimSuffix(text.String(), "\n")
}

const (
	toParquet   = "{type: WriteToParquet, config: {shards: 3}}"
	fromParquet = "{type: ReadFromParquet, config: {path: INPUT/all/*}}"
	toCSV       = "{type: WriteToCsv, config: {shards: 2}}"
	fromCSV     = "{type: ReadFromCsv, config: {path: INPUT/all/*}}"
)

// TestParquetHolds: each kind of column is read back as it was.
func TestParquetHolds(t *testing.T) {
	rows := []map[string]any{
		{
			"bool": true, "int": 1, "big": 1 << 60, "double": 0.5, "mixed": 1, "text": "ä\x00\n", "object": map[string]any{"a": []any{1, nil}},
			"list": []any{"a", nil, ""}, "nested": []any{[]any{1}, nil, []any{}}, "lists": []any{}, "either": "a", "nothing": nil, "far": 1 << 60,
			"deep": deep(20), "objects": []any{map[string]any{}}, "json": "[1]",
		},
		{
			"bool": false, "int": -1, "big": -(1 << 60), "double": 2, "mixed": 0.25, "text": "", "object": map[string]any{"a": nil},
			"list": []any{}, "nested": []any{}, "lists": []any{}, "either": 1, "nothing": nil, "far": 0.5,
			"deep": deep(1), "objects": []any{}, "json": "x",
		},
		{},
	}
	for name := range rows[0] {
		rows[2][name] = nil // what a row lacks is null in Parquet
	}
	before, after := rewrite(t, rows, toParquet, fromParquet)
	if diff := cmp.Diff(before, after); diff != "" {
		t.Error(diff)
	}
}

// deep is a list in lists.
func deep(n int) any {
	if n == 0 {
		return "bottom"
	}
	return []any{deep(n - 1)}
}

// TestParquetReadsBack: whatever rows are written to Parquet, the same are read, but that a field which some objects lack is null in them.
func TestParquetReadsBack(t *testing.T) {
	fewerChecks(t, "6")
	rapid.Check(t, func(t2 *rapid.T) {
		rows := rapid.SliceOfN(rapid.MapOfN(rapid.SampledFrom([]string{"a", "b", "c.d", ""}), anyValue(3), 1, 4), 0, 30).Draw(t2, "rows")
		all := map[string]bool{}
		for _, r := range rows {
			for name := range r {
				all[name] = true
			}
		}
		for _, r := range rows {
			for name := range all {
				if _, ok := r[name]; !ok {
					r[name] = nil
				}
			}
		}
		before, after := rewrite(t, rows, toParquet, fromParquet)
		if diff := cmp.Diff(withoutNulls(t, before), withoutNulls(t, after)); diff != "" {
			t2.Error(diff)
		}
	})
}

// withoutNulls leaves out the fields that are null, of rows and of the objects in them.
func withoutNulls(t *testing.T, lines []string) []string {
	t.Helper()
	var clean func(v any) any
	clean = func(v any) any {
		switch v := v.(type) {
		case []any:
			for i := range v {
				v[i] = clean(v[i])
			}
		case map[string]any:
			maps.DeleteFunc(v, func(_ string, field any) bool { return field == nil })
			for name := range v {
				v[name] = clean(v[name])
			}
		}
		return v
	}
	var out []string
	for _, line := range lines {
		d := json.NewDecoder(strings.NewReader(line))
		d.UseNumber()
		var v any
		if err := d.Decode(&v); err != nil {
			t.Fatal(err)
		}
		text, err := json.Marshal(clean(v))
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, string(text))
	}
	slices.Sort(out)
	return out
}

func anyValue(depth int) *rapid.Generator[any] {
	kinds := []*rapid.Generator[any]{
		rapid.Just[any](nil),
		rapid.Map(rapid.Bool(), func(v bool) any { return v }),
		rapid.Map(rapid.Int64Range(-1<<53, 1<<53), func(v int64) any { return v }),
		rapid.Map(rapid.Int64Range(-5, 5), func(v int64) any { return v }),
		rapid.Map(rapid.Float64Range(-1e15, 1e15), func(v float64) any { return v + 0 }),
		rapid.Map(rapid.String(), func(v string) any { return v }),
	}
	if depth > 0 {
		kinds = append(
			kinds,
			rapid.Map(rapid.SliceOfN(anyValue(depth-1), 0, 3), func(v []any) any { return append([]any{}, v...) }),
			rapid.Map(rapid.SliceOfN(rapid.String(), 0, 3), func(v []string) any {
				list := []any{}
				for _, s := range v {
					list = append(list, s)
				}
				return list
			}),
			rapid.Map(rapid.MapOfN(rapid.StringMatching("[a-c]"), anyValue(depth-1), 0, 2), func(v map[string]any) any { return v }),
		)
	}
	return rapid.OneOf(kinds...)
}

// TestCSVReadsBack: texts are read from CSV as they were written.
func TestCSVReadsBack(t *testing.T) {
	fewerChecks(t, "6")
	rapid.Check(t, func(t2 *rapid.T) {
		names := rapid.SliceOfNDistinct(rapid.StringMatching("[a-z,\" ]{1,4}"), 1, 4, rapid.ID).Draw(t2, "names")
		text := rapid.StringOf(rapid.OneOf(rapid.Rune(), rapid.SampledFrom([]rune("\",\r\n '\uFEFF"))))
		rows := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) map[string]any {
			r := map[string]any{}
			for _, name := range names {
				r[name] = text.Draw(t, "text")
			}
			return r
		}), 1, 20).Draw(t2, "rows")
		before, after := rewrite(t, rows, toCSV, fromCSV)
		if diff := cmp.Diff(before, after); diff != "" {
			t2.Error(diff)
		}
	})
}

func TestWriteCSV(t *testing.T) {
	input := write(t, map[string]string{
		"in.jsonl": `{"b": null, "a": 1.5, "c": {"x": [1, null]}}` + "\n" + `{"a": true, "b": "say \"hi\", you"}` + "\n",
	})
	tests := map[string]struct {
		config, want string
		rejected     int64
	}{
		"all":     {"{}", "a,b,c\n1.5,,\"{\"\"x\"\":[1,null]}\"\ntrue,\"say \"\"hi\"\", you\",\n", 0},
		"columns": {"{columns: [b, a, z]}", "b,a,z\n\"say \"\"hi\"\", you\",true,\n", 1},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			j := job(t.TempDir(), chain(t, input, "- {type: ReadFromJson, config: {path: INPUT/*}}\n- {type: WriteToCsv, config: "+test.config+"}"))
			out := mustRun(t, j)
			if out.Rows.Rejected != test.rejected || out.Reasons["WriteToCsv/unknown_column"] != test.rejected {
				t.Errorf("%+v, %v", out.Rows, out.Reasons)
			}
			text := read(t, filepath.Join(j.OutputDir, "all", "part-00000-of-00001.csv"))
			if diff := cmp.Diff(sortedLines(test.want), sortedLines(text)); diff != "" {
				t.Error(diff)
			}
			if diff := cmp.Diff([]string{"part-00000-of-00001.csv"}, names(t, filepath.Join(j.OutputDir, "all"))); diff != "" {
				t.Errorf("files: %s", diff)
			}
		})
	}
}

// sortedLines has the header first and then the others in order.
func sortedLines(text string) []string {
	list := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	slices.Sort(list[1:])
	return list
}

func TestWriteText(t *testing.T) {
	input := write(t, map[string]string{"in.jsonl": `{"text": "a"}` + "\n" + `{"text": ""}` + "\n" + `{"text": 1}` + "\n" + `{"text": "b\nc"}` + "\n"})
	j := job(t.TempDir(), chain(t, input, "- {type: ReadFromJson, config: {path: INPUT/*}}\n- {type: WriteToText}"))
	out := mustRun(t, j)
	if diff := cmp.Diff(map[string]int64{"WriteToText/not_text": 1, "WriteToText/line_end": 1}, out.Reasons); diff != "" {
		t.Error(diff)
	}
	if got := read(t, filepath.Join(j.OutputDir, "all", "part-00000-of-00001.txt")); got != "a\n\n" && got != "\na\n" {
		t.Errorf("%q", got)
	}
	input = write(t, map[string]string{"in.jsonl": `{"text": "a", "id": 1}` + "\n"})
	_, err := run(t, job(t.TempDir(), chain(t, input, "- {type: ReadFromJson, config: {path: INPUT/*}}\n- {type: WriteToText}")))
	if errorType(err) != fault.User || !strings.Contains(err.Error(), "rows with one field, but this one has 2: id, text") {
		t.Errorf("%v", err)
	}
}

// TestFormatsDependOnRowsAlone: the files are the same for the same rows, however they come in.
func TestFormatsDependOnRowsAlone(t *testing.T) {
	var rows []string
	for i := range 300 {
		rows = append(rows, fmt.Sprintf(`{"id": %d, "n": %d.5, "tags": ["a%d"], "x": %s}`+"\n", i, i, i%7, []string{"1", `"a"`, "null"}[i%3]))
	}
	one := write(t, map[string]string{"in.jsonl": strings.Join(rows, "")})
	slices.Reverse(rows)
	two := write(t, map[string]string{"a.jsonl": strings.Join(rows[:100], ""), "b.jsonl": strings.Join(rows[100:], "")})
	for _, writer := range []string{"WriteToParquet", "WriteToAvro", "WriteToCsv"} {
		spec := "- {type: ReadFromJson, config: {path: INPUT/*}}\n- {type: Split, config: {key: row.id, parts: {a: 50%, b: 50%}}}\n" +
			"- {type: " + writer + ", config: {shards: 2}}"
		spec = strings.ReplaceAll(spec, "50%", "0.5")
		var digests []string
		for i, input := range []string{one, two} {
			j := job(t.TempDir(), chain(t, input, spec))
			j.Parallelism = 1 + 3*i
			mustRun(t, j)
			digests = append(digests, treeDigest(t, j.OutputDir))
		}
		if digests[0] != digests[1] {
			t.Errorf("%s: the files differ", writer)
		}
	}
}

// TestEmptyShards: a shard without rows can be read as the others.
func TestEmptyShards(t *testing.T) {
	for _, writer := range []string{"WriteToParquet", "WriteToAvro", "WriteToCsv", "WriteToText", "WriteToJson"} {
		for what, text := range map[string]string{"one row": `{"text": "a"}` + "\n", "none": ""} {
			input := write(t, map[string]string{"in.jsonl": text})
			j := job(t.TempDir(), chain(t, input, "- {type: ReadFromJson, config: {path: INPUT/*}}\n- {type: "+writer+", config: {shards: 3}}"))
			mustRun(t, j)
			files, err := filepath.Glob(filepath.Join(j.OutputDir, "all", "*"))
			if err != nil || len(files) != 3 {
				t.Fatalf("%s, %s: %v, %v", writer, what, files, err)
			}
			reader := strings.Replace(writer, "WriteTo", "ReadFrom", 1)
			again := job(t.TempDir(), chain(t, j.OutputDir, "- {type: "+reader+", config: {path: INPUT/all/*}}\n- {type: WriteToJson}"))
			n := int64(strings.Count(text, "\n"))
			if got := mustRun(t, again).Rows; got != (spec.Rows{Read: n, Kept: n}) {
				t.Errorf("%s, %s: read back %+v", writer, what, got)
			}
		}
	}
}

// TestReadShard: the rows of a file are what was written, whatever its format.
func TestReadShard(t *testing.T) {
	input := write(t, map[string]string{"in.jsonl": `{"line": "a"}` + "\n" + `{"line": "b"}` + "\n"})
	for _, writer := range []string{"WriteToParquet", "WriteToAvro", "WriteToCsv", "WriteToText", "WriteToJson"} {
		j := job(t.TempDir(), chain(t, input, "- {type: ReadFromJson, config: {path: INPUT/*}}\n- {type: "+writer+"}"))
		mustRun(t, j)
		files, err := filepath.Glob(filepath.Join(j.OutputDir, "all", "*"))
		if err != nil || len(files) != 1 {
			t.Fatal(files, err)
		}
		var got []string
		if err := format.ReadShard(t.Context(), files[0], func(row []byte) error { got = append(got, string(row)); return nil }); err != nil {
			t.Errorf("%s: %v", writer, err)
		}
		slices.Sort(got)
		if diff := cmp.Diff([]string{`{"line":"a"}`, `{"line":"b"}`}, got); diff != "" {
			t.Errorf("%s: %s", writer, diff)
		}
	}
	if err := format.ReadShard(t.Context(), filepath.Join(input, "in.json"), nil); err == nil {
		t.Error("a file of no format was read")
	}
}
