package pipelines_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/pipelines"
	"github.com/sluiceml/sluice/pipelines/meter"
)

// everyTransform is a chain that has each transform once or more.
const everyTransform = `
- {type: ReadFromJson, config: {path: INPUT/*.jsonl}}
- {type: DecodeMail, name: decode, config: {field: text}}
- {type: HtmlToText, config: {fields: [body], when: row.content_type == "text/html"}}
- {type: NormalizeText, config: {fields: [subject, body]}}
- {type: Filter, name: empty, config: {keep: row.body != ""}}
- {type: MaskPII, config: {fields: [body]}}
- {type: Deduplicate, name: same_body, config: {fields: [body], order_by: row.date}}
- {type: MapToFields, name: columns, config: {fields: {id: row.id, spam: row.folder.startsWith("spam"), text: row.subject + "\n" + row.body}}}
- {type: ValidateWithSchema, name: schema, config: {schema: {type: object, required: [id, text], properties: {text: {type: string, maxLength: 60}}}}}
- {type: Split, config: {key: row.text, parts: {train: 0.5, test: 0.5}}}
- {type: WriteToJson, config: {shards: 2}}
`

func mailRow(folder, id, date, contentType, body string) string {
	text, _ := json.Marshal(map[string]string{
		"id": id, "folder": folder,
		"text": "From a@b Thu Aug 22 2002\nFrom: Ann <ann@example.org>\nSubject: Hi\nDate: " + date +
			"\nContent-Type: " + contentType + "\n\n" + body,
	})
	return string(text) + "\n"
}

func TestRun(t *testing.T) {
	input := write(t, map[string]string{
		"spam.jsonl": mailRow("spam", "1", "Thu, 22 Aug 2002 12:00:00 +0000", "text/html", "<p>Buy &amp; <b>win</b></p>") +
			mailRow("spam", "2", "Wed, 21 Aug 2002 12:00:00 +0000", "text/plain", "Buy  & win\r\n"), // as 1, but earlier
		"ham.jsonl": "\n" + mailRow("ham", "3", "", "text/plain", "Write to bob@example.org!") +
			"{\"id\": 4,\n" +
			mailRow("ham", "5", "", "text/plain", " \n\t\n") +
			mailRow("ham", "6", "", "text/plain", strings.Repeat("long ", 20)),
	})
	dir := t.TempDir()
	got := mustRun(t, job(dir, chain(t, input, everyTransform)))

	want := spec.CleanOutput{
		Rows:    spec.Rows{Read: 6, Kept: 2, Dropped: 2, Rejected: 2},
		Rules:   map[string]spec.Rule{"empty": {Dropped: 1}, "same_body": {Dropped: 1}},
		Reasons: map[string]int64{"ReadFromJson/not_json": 1, "schema/schema": 1},
		Splits:  got.Splits,
		Masked:  map[string]int64{"email": 1, "phone": 0, "ip": 0, "card": 0, "iban": 0},
		Profile: got.Profile, Profiles: map[string]spec.Profile{}, Schema: got.Schema, // TestProfile looks at one

		Duplicates: spec.Duplicates{Dropped: 1, Groups: 1},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("result (-want +got):\n%s", diff)
	}
	rows := lines(t, filepath.Join(dir, "out", "t*", "*.jsonl"))
	slices.SortFunc(rows, func(a, b map[string]any) int { return strings.Compare(a["id"].(string), b["id"].(string)) })
	wantRows := []map[string]any{
		{"id": "2", "spam": true, "text": "Hi\nBuy & win"},
		{"id": "3", "spam": false, "text": "Hi\nWrite to <EMAIL>!"},
	}
	if diff := cmp.Diff(wantRows, rows); diff != "" {
		t.Errorf("rows (-want +got):\n%s", diff)
	}
	dead := lines(t, filepath.Join(dir, "rejected", "*.jsonl"))
	if len(dead) != 2 {
		t.Fatalf("got %d rows in the dead letter, want 2", len(dead))
	}
	delete(dead[0], "message")
	wantDead := map[string]any{
		"element": `{"id": 4,`, "transform": "ReadFromJson", "reason": "not_json", "source": "ham.jsonl", "offset": dead[0]["offset"],
	}
	if diff := cmp.Diff(wantDead, dead[0]); diff != "" {
		t.Errorf("dead letter (-want +got):\n%s", diff)
	}
	if got := dead[1]["message"].(string); !strings.Contains(got, "/text") {
		t.Errorf("the dead letter's message %q does not name the field", got)
	}
	wantFiles := []string{"schema.json", "test", "train"}
	if diff := cmp.Diff(wantFiles, names(t, filepath.Join(dir, "out"))); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"out", "rejected"}, names(t, dir)); diff != "" {
		t.Errorf("left beside the output (-want +got):\n%s", diff)
	}
}

func TestDocuments(t *testing.T) {
	input := write(t, map[string]string{"a/1.json": "{\n\"n\": 1}", "a/2.json": `{"n": 2}`, "b/3.json": "[3]", "b/4.json": ""})
	dir := t.TempDir()
	got := mustRun(t, job(dir, chain(t, input, `
- {type: ReadFromJson, config: {path: INPUT/*/*.json, format: document}}
- {type: WriteToJson}
`)))
	if want := (spec.Rows{Read: 4, Kept: 2, Rejected: 2}); got.Rows != want {
		t.Errorf("got %+v, want %+v", got.Rows, want)
	}
	for _, row := range lines(t, filepath.Join(dir, "rejected", "*")) {
		if s := row["source"]; s != "b/3.json" && s != "b/4.json" {
			t.Errorf("rejected %v", row)
		}
	}
}

func TestProgress(t *testing.T) {
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	input := write(t, map[string]string{"in": strings.Join(manyRows(100), "")})
	var last meter.Progress
	out, err := pipelines.Run(t.Context(), exe, job(t.TempDir(), chain(t, input, dedupAndSplit)), func(p meter.Progress) {
		if p.Done < last.Done {
			t.Errorf("%v after %v", p, last)
		}
		last = p
	})
	if err != nil {
		t.Fatal(err)
	}
	size := int64(len(strings.Join(manyRows(100), "")))
	if last.Read != 100 || last.Kept != out.Rows.Kept || last.Bytes != size || last.Done < 0.8 { // parts without rows have nothing to be done
		t.Errorf("the last progress is %#v, want 100 rows and %d bytes read, and %d kept", last, size, out.Rows.Kept)
	}
}

// manyRows makes rows of which some are equal in text.
func manyRows(n int) []string {
	r := rand.New(rand.NewPCG(1, 2))
	rows := make([]string, n)
	for i := range rows {
		rows[i] = fmt.Sprintf(`{"id": %d, "text": "text %d", "when": %d, "folder": "spam"}`, i, r.IntN(n/2), r.IntN(100)) + "\n"
	}
	return rows
}

const dedupAndSplit = `
- {type: ReadFromJson, config: {path: INPUT/*}}
- {type: Deduplicate, config: {fields: [text], order_by: row.when}}
- {type: Filter, name: some, config: {keep: row.id % 10 != 0}}
- {type: Deduplicate, name: again, config: {fields: [when, folder]}}
- {type: Split, config: {key: row.text, parts: {train: 0.8, dev: 0.1, test: 0.1}}}
- {type: WriteToJson, config: {shards: 3}}
`

// The dataset must depend on the rows alone.
func TestSameDigest(t *testing.T) {
	rows := manyRows(3000)
	digest := func(parallelism, files int) string {
		rand.Shuffle(len(rows), func(i, j int) { rows[i], rows[j] = rows[j], rows[i] })
		content := map[string]string{}
		for i, row := range rows {
			content[fmt.Sprintf("%d.jsonl", i%files)] += row
		}
		dir := t.TempDir()
		j := job(dir, chain(t, write(t, content), dedupAndSplit))
		j.Parallelism = parallelism
		j.ProfileFile = filepath.Join(dir, "profile.json")
		mustRun(t, j)
		return treeDigest(t, dir)
	}
	want := digest(1, 1)
	for _, c := range []struct{ parallelism, files int }{{4, 1}, {1, 7}, {4, 50}} {
		if got := digest(c.parallelism, c.files); got != want {
			t.Errorf("parallelism %d, %d files: digest %s, want %s", c.parallelism, c.files, got, want)
		}
	}
}

// Of equal rows the lowest in order_by stays, and without one always the same.
func TestSurvivor(t *testing.T) {
	files := map[string]string{
		"a": `{"text": "x", "when": null, "id": 1}` + "\n" + `{"text": "x", "when": "2002-02-01", "id": 2}`,
		"b": `{"text": "x", "when": "2002-01-01", "id": 3}` + "\n" + `{"text": "y", "when": null, "id": 4}`,
	}
	dir := t.TempDir()
	mustRun(t, job(dir, chain(t, write(t, files), `
- {type: ReadFromJson, config: {path: INPUT/*}}
- {type: Deduplicate, config: {fields: [text], order_by: row.when}}
- {type: WriteToJson}
`)))
	kept := map[any]any{}
	for _, row := range lines(t, filepath.Join(dir, "out", "all", "*")) {
		kept[row["text"]] = row["id"]
	}
	if diff := cmp.Diff(map[any]any{"x": 3.0, "y": 4.0}, kept); diff != "" {
		t.Errorf("survivors (-want +got):\n%s", diff)
	}
}

// Every row read is kept, dropped or rejected, whatever the rows are, and what is kept is in the files.
func TestAccountAddsUp(t *testing.T) {
	line := rapid.OneOf(
		rapid.Custom(func(t *rapid.T) string {
			text, _ := json.Marshal(map[string]any{
				"text": rapid.SampledFrom([]any{"a", "b", "", nil, 1, []int{1}, "ü<>&\u2028"}).Draw(t, "text"),
				"n":    rapid.SampledFrom([]any{1, 2.5, "3", nil, true, 1e300}).Draw(t, "n"),
			})
			return string(text)
		}),
		rapid.SampledFrom([]string{
			`{}`, `{"text": "no n"}`, `{"n": 1}`, `[1]`, `"text"`, `null`, `{"text": "a"`, `{"text": "a"} x`, "\xff", "{\"text\": \"\xff\"}",
			`{"n": 123456789012345678901234567890, "text": "a"}`, `   `, ``, `{"text": "\ud800", "n": 1}`,
		}),
		rapid.StringN(0, 20, 40),
	)
	const sp = `
- {type: ReadFromJson, config: {path: INPUT/*}}
- {type: NormalizeText, config: {fields: [text]}}
- {type: Filter, name: small, config: {keep: row.n < 100}}
- {type: Deduplicate, config: {fields: [text], order_by: row.n}}
- {type: MapToFields, config: {append: true, fields: {long: row.text + "!"}}}
- {type: Split, config: {key: row.text, parts: {a: 0.5, b: 0.5}}}
- {type: WriteToJson, config: {shards: 2}}
`
	fewerChecks(t, "20")
	rapid.Check(t, func(rt *rapid.T) {
		all := rapid.SliceOfN(line, 0, 40).Draw(rt, "lines")
		text := strings.Join(all, "\n")
		if strings.HasPrefix(strings.TrimLeft(text, "\ufeff \t\r\n"), "[") {
			text = "{}\n" + text // else it may be an array, and not lines
		}
		read := 0
		for l := range strings.SplitSeq(strings.TrimPrefix(text, "\ufeff"), "\n") { // a byte order mark is no row
			if strings.TrimSpace(l) != "" {
				read++
			}
		}
		dir := t.TempDir()
		out := mustRun(t, job(dir, chain(t, write(t, map[string]string{"in": text}), sp)))
		kept := len(lines(t, filepath.Join(dir, "out", "*", "*.jsonl")))
		rejected := len(lines(t, filepath.Join(dir, "rejected", "*")))
		dropped := int64(0)
		for r := range maps.Values(out.Rules) {
			dropped += r.Dropped
		}
		want := spec.Rows{Read: int64(read), Kept: int64(kept), Rejected: int64(rejected), Dropped: dropped}
		if out.Rows != want || read != kept+rejected+int(dropped) {
			rt.Fatalf("got %+v, found %+v", out.Rows, want)
		}
	})
}

// Rows with equal keys must not be in different parts, and the shares must be about kept.
func TestSplit(t *testing.T) {
	var text strings.Builder
	for i := range 4000 {
		fmt.Fprintf(&text, `{"key": "k%d", "n": %d}`+"\n", i/2, i)
	}
	dir := t.TempDir()
	out := mustRun(t, job(dir, chain(t, write(t, map[string]string{"in": text.String()}), `
- {type: ReadFromJson, config: {path: INPUT/in}}
- {type: Split, config: {key: row.key, parts: {train: 0.8, dev: 0.1, test: 0.1}}}
- {type: WriteToJson}
`)))
	part := map[any]string{}
	for _, name := range []string{"train", "dev", "test"} {
		for _, row := range lines(t, filepath.Join(dir, "out", name, "*")) {
			if in, ok := part[row["key"]]; ok && in != name {
				t.Fatalf("the key %v is in %s and in %s", row["key"], in, name)
			}
			part[row["key"]] = name
		}
	}
	// 2000 keys: five standard deviations are 90 keys, 180 rows.
	for name, want := range map[string]int64{"train": 3200, "dev": 400, "test": 400} {
		if got := out.Splits[name]; got < want-180 || got > want+180 {
			t.Errorf("%s has %d rows, want about %d", name, got, want)
		}
	}
}
