package pipelines_test

import (
	"bytes"
	"compress/gzip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/fault"
)

// zipped packs each text as a member of one gzip file.
func zipped(t testing.TB, texts ...string) string {
	t.Helper()
	var out bytes.Buffer
	for _, text := range texts {
		w := gzip.NewWriter(&out)
		if _, err := w.Write([]byte(text)); err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
	}
	return out.String()
}

// rejections returns what is in a dead letter but the words.
func rejections(t testing.TB, dir string) []map[string]any {
	t.Helper()
	rows := lines(t, filepath.Join(dir, "rejected", "*"))
	for _, row := range rows {
		delete(row, "message")
		delete(row, "transform")
	}
	return rows
}

func TestReadFromText(t *testing.T) {
	input := write(t, map[string]string{
		"a.txt":        "one\r\n\n three",
		"b/c/d.txt.gz": zipped(t, "zipped 1\nzip", "ped 2\n"),
		"b/cut.txt":    zipped(t, "before\n", "x")[:40],
		"b/bad.txt":    "fine\nb\xe4d\n",
	})
	dir := t.TempDir()
	out := mustRun(t, job(dir, chain(t, input, `
- {type: ReadFromText, config: {path: [INPUT/a.txt, INPUT/b/**], on_unreadable: reject}}
- {type: WriteToJson}
`)))
	if want := (spec.Rows{Read: 9, Kept: 7, Rejected: 2}); out.Rows != want {
		t.Errorf("got %+v, want %+v", out.Rows, want)
	}
	kept := map[any]bool{}
	for _, row := range lines(t, filepath.Join(dir, "out", "all", "*")) {
		kept[row["line"]] = true
	}
	want := map[any]bool{"one": true, "": true, " three": true, "zipped 1": true, "zipped 2": true, "before": true, "fine": true}
	if diff := cmp.Diff(want, kept); diff != "" {
		t.Errorf("kept (-want +got):\n%s", diff)
	}
	wantDead := []map[string]any{
		{"element": "b\uFFFDd", "reason": "bad_encoding", "source": "b/bad.txt", "offset": 5.0},
		{"element": "", "reason": "damaged", "source": "b/cut.txt", "offset": 7.0},
	}
	if diff := cmp.Diff(wantDead, rejections(t, dir)); diff != "" {
		t.Errorf("dead letter (-want +got):\n%s", diff)
	}
}

func TestReadFromCSV(t *testing.T) {
	input := write(t, map[string]string{
		"a.csv":    "\xef\xbb\xbfid;text\r\n1;\"a; \"\"b\"\"\r\nc\"\r\n2;\r\n3\r\n4;x;y\r\n5;last",
		"b.csv.gz": zipped(t, "text;id\nfrom a zip;6\n"),
	})
	dir := t.TempDir()
	out := mustRun(t, job(dir, chain(t, input, `
- {type: ReadFromCsv, config: {path: INPUT/*, delimiter: ";"}}
- {type: WriteToJson}
`)))
	if want := (spec.Rows{Read: 6, Kept: 4, Rejected: 2}); out.Rows != want {
		t.Errorf("got %+v, want %+v", out.Rows, want)
	}
	kept := map[any]any{}
	for _, row := range lines(t, filepath.Join(dir, "out", "all", "*")) {
		kept[row["id"]] = row["text"]
	}
	if diff := cmp.Diff(map[any]any{"1": "a; \"b\"\r\nc", "2": "", "5": "last", "6": "from a zip"}, kept); diff != "" {
		t.Errorf("kept (-want +got):\n%s", diff)
	}
	wantDead := []map[string]any{
		{"element": "3", "reason": "ragged", "source": "a.csv", "offset": 33.0},
		{"element": "4;x;y", "reason": "ragged", "source": "a.csv", "offset": 36.0},
	}
	if diff := cmp.Diff(wantDead, rejections(t, dir)); diff != "" {
		t.Errorf("dead letter (-want +got):\n%s", diff)
	}
	for text, want := range map[string]string{"a,b,a\n": "two columns are named \"a\"", "a,,column_2": "column 2 has no name", "a\rb\rc": "carriage return"} {
		_, err := run(t, job(t.TempDir(), chain(t, write(t, map[string]string{"in": text}), `
- {type: ReadFromCsv, config: {path: INPUT/in}}
- {type: WriteToJson}
`)))
		if errorType(err) != fault.User || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want a user error with %q", text, err, want)
		}
	}
}

// What a rule rejects by mistake is not lost: the rule is mended, the dead letter is read, and all rows are there.
func TestFeedDeadLetter(t *testing.T) {
	input := write(t, map[string]string{"in": strings.Join(manyRows(1000), "") + "{\"id\": 1000, \"text\": \n"})
	first, second := t.TempDir(), t.TempDir()
	out := mustRun(t, job(first, chain(t, input, `
- {type: ReadFromJson, config: {path: INPUT/in}}
- {type: ValidateWithSchema, config: {schema: {properties: {when: {maximum: 29}}}}}
- {type: WriteToJson}
`)))
	if out.Rows.Rejected < 500 {
		t.Fatalf("%+v", out.Rows)
	}
	again := mustRun(t, job(second, chain(t, first, `
- {type: ReadFromJson, config: {path: INPUT/rejected/*, format: dead_letter}}
- {type: ValidateWithSchema, config: {schema: {properties: {when: {maximum: 99}}}}}
- {type: WriteToJson}
`)))
	if want := (spec.Rows{Read: out.Rows.Rejected, Kept: out.Rows.Rejected - 1, Rejected: 1}); again.Rows != want {
		t.Errorf("got %+v, want %+v", again.Rows, want)
	}
	ids := map[any]bool{}
	for _, dir := range []string{first, second} {
		for _, row := range lines(t, filepath.Join(dir, "out", "all", "*")) {
			ids[row["id"]] = true
		}
	}
	if len(ids) != 1000 {
		t.Errorf("%d rows in both datasets together, want 1000", len(ids))
	}
	if got := rejections(t, second); got[0]["reason"] != "not_json" {
		t.Errorf("rejected again: %v", got)
	}
}

// The rows of a dead letter are as they were: doubles that are whole remain doubles, and keep all their digits.
func TestDeadLetterKeepsDoubles(t *testing.T) {
	const texts = `{"a":-0.0}` + "\n" + `{"a":1.0}` + "\n" + `{"a":100000000000000000000.0}` + "\n" + `{"a":123456789012345680.0}` + "\n" + `{"a":1e+22}` + "\n" + `{"a":[2]}` + "\n"
	input, first, second := write(t, map[string]string{"in": texts}), t.TempDir(), t.TempDir()
	mustRun(t, job(first, chain(t, input, `
- {type: ReadFromJson, config: {path: INPUT/in}}
- {type: ValidateWithSchema, config: {schema: {required: [b]}}}
- {type: WriteToJson}
`)))
	mustRun(t, job(second, chain(t, first, `
- {type: ReadFromJson, config: {path: INPUT/rejected/*, format: dead_letter}}
- {type: WriteToJson, config: {shards: 1}}
`)))
	var got []string
	for _, file := range glob(t, filepath.Join(second, "out", "all", "*")) {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, strings.Fields(string(text))...)
	}
	slices.Sort(got)
	if diff := cmp.Diff(strings.Fields(texts), got); diff != "" {
		t.Error(diff)
	}
}

// Compression and encoding do not change what is in a file, nor into how many units it is cut.
func TestSameRowsInAnyForm(t *testing.T) {
	rows := strings.Join(manyRows(80_000), "") // some 5 MB, more than one unit
	if len(rows) < 5_000_000 {
		t.Fatalf("%d bytes are one unit", len(rows))
	}
	digest := func(text, encoding string) string {
		dir := t.TempDir()
		j := job(dir, chain(t, write(t, map[string]string{"in": text}), `
- {type: ReadFromJson, config: {path: INPUT/in, encoding: `+encoding+`}}
- {type: WriteToJson}
`))
		if out := mustRun(t, j); out.Rows.Kept != 80_000 {
			t.Fatalf("%+v", out.Rows)
		}
		return treeDigest(t, j.OutputDir)
	}
	want := digest(rows, "UTF-8")
	var wide strings.Builder
	for i := range len(rows) {
		wide.Write([]byte{rows[i], 0})
	}
	for name, got := range map[string]string{
		"gzip": digest(zipped(t, rows[:1000], rows[1000:]), "UTF-8"), "latin-1": digest(rows, "ISO-8859-1"),
		"utf-16": digest(wide.String(), "UTF-16LE"), "utf-16 by mark, zipped": digest(zipped(t, "\xff\xfe", wide.String()), "UTF-8"),
		"utf-8 by mark": digest("\xef\xbb\xbf"+rows, "windows-1252"),
	} {
		if got != want {
			t.Errorf("%s: another digest", name)
		}
	}
}

// A line of 200 MB is rejected without being held: the job has less memory than that.
func TestHugeLine(t *testing.T) {
	const size = 200 << 20
	for name, read := range map[string]string{"json": "ReadFromJson", "text": "ReadFromText"} {
		t.Run(name, func(t *testing.T) {
			input := t.TempDir()
			path := filepath.Join(input, "in")
			if err := os.WriteFile(path, []byte(`{"a": 1}`+"\n"), 0o666); err != nil {
				t.Fatal(err)
			}
			if err := os.Truncate(path, size); err != nil { // which takes no space on the disk
				t.Fatal(err)
			}
			f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			if _, err := f.WriteString("\n{\"a\": 2}\n"); err != nil {
				t.Fatal(err)
			}
			dir := t.TempDir()
			j := job(dir, chain(t, input, "- {type: "+read+", config: {path: INPUT/in}}\n- {type: WriteToJson}\n"))
			j.Memory = size - size/10
			if out := mustRun(t, j); out.Rows != (spec.Rows{Read: 3, Kept: 2, Rejected: 1}) {
				t.Errorf("%+v", out.Rows)
			}
			dead := rejections(t, dir)
			if len(dead) != 1 || dead[0]["reason"] != "too_long" || dead[0]["offset"] != 9.0 {
				t.Errorf("%d rows in the dead letter, the first %.200v", len(dead), dead[0])
			}
		})
	}
}
