package pipelines_test

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sluiceml/sluice/dsl/transform"
	"github.com/sluiceml/sluice/pipelines"
)

var update = flag.Bool("update", false, "write what the transforms make of the fixture, under a new Version")

// made is what a version makes of the fixture, by the cleaning.
type made struct {
	Version string            `json:"version"`
	Digests map[string]string `json:"digests"`
}

// fixture are cleanings that use all transforms between them. INPUT is testdata/fixture, MADE what the first of them made.
var fixture = []struct{ name, transforms string }{
	{"rows", `
- {type: ReadFromJson, config: {path: INPUT/rows.jsonl}}
- {type: ValidateWithSchema, config: {schema: {type: object, required: [id, text]}}}
- {type: MapToFields, config: {append: true, fields: {words: 'row.text.split(" ").distinct()', set: 'sets.intersects(row.tags, ["a", "x"])', sum: row.id + 1}}}
- {type: MapToFields, name: order, config: {append: true, fields: {sorted: row.words.sort(), by: 'row.tags.sortBy(x, x)', half: double(row.id) / 2.0}}}
- {type: Filter, config: {keep: row.id != 3}}
- {type: Sample, config: {fraction: 0.9, key: row.id}}
- {type: Deduplicate, config: {fields: [key], order_by: row.id}}
- {type: Split, config: {key: row.id, parts: {train: 0.8, test: 0.2}}}
- {type: WriteToJson, config: {shards: 2}}
`},
	{"texts", `
- {type: ReadFromJson, config: {path: INPUT/texts.jsonl}}
- {type: HtmlToText, config: {fields: [text]}}
- {type: NormalizeText, config: {fields: [text]}}
- {type: Decontaminate, config: {fields: [text], against: INPUT/held.jsonl, ngram: 5}}
- {type: QualityFilter, config: {field: text, rules: [gopher, c4, fineweb], gopher: {min_words: 2}}}
- {type: DetectLanguage, config: {field: text, as: lang}}
- {type: MaskPII, config: {fields: [text], action: hash, key: KEY}}
- {type: Deduplicate, config: {method: minhash, fields: [text]}}
- {type: WriteToJson, config: {shards: 1}}
`},
	{"languages", `
- {type: ReadFromJson, config: {path: INPUT/texts.jsonl}}
- {type: HtmlToText, config: {fields: [text]}}
- {type: MaskPII, config: {fields: [text]}}
- {type: DetectLanguage, config: {field: text, as: lang}}
- {type: WriteToJson}
`},
	{"mail", `
- {type: ReadFromText, config: {path: INPUT/mails.txt}}
- {type: MapToFields, config: {fields: {raw: 'row.line.replace("|", "\\n")'}}}
- {type: DecodeMail, config: {field: raw}}
- {type: WriteToJson}
`},
	{"lines", `
- {type: ReadFromText, config: {path: INPUT/mails.txt}}
- {type: WriteToText}
`},
	{"groups", `
- {type: ReadFromCsv, config: {path: INPUT/rows.csv}}
- {type: Explode, config: {fields: [a]}}
- {type: Combine, config: {group_by: [b], combine: {n: {fn: count}, most: {value: row.a, fn: max}}}}
- {type: Profile, config: {columns: {n: row.n}}}
- {type: WriteToCsv}
`},
	{"columns", `
- {type: ReadFromJson, config: {path: INPUT/rows.jsonl}}
- {type: WriteToParquet}
`},
	{"avro", `
- {type: ReadFromJson, config: {path: INPUT/rows.jsonl}}
- {type: WriteToAvro}
`},
	{"columns again", `
- {type: ReadFromParquet, config: {path: MADE/columns/*/*}}
- {type: Exec, config: {command: [cat]}}
- {type: WriteToJson}
`},
}

// What the transforms make of a spec and rows is taken over from earlier runs, as long as Version stays as it is.
func TestVersion(t *testing.T) {
	const golden = "testdata/made.json"
	input, err := filepath.Abs("testdata/fixture")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	now := made{pipelines.Version, map[string]string{}}
	for _, f := range fixture {
		folder := filepath.Join(dir, f.name)
		if err := os.Mkdir(folder, 0o777); err != nil {
			t.Fatal(err)
		}
		j := job(folder, chain(t, input, strings.ReplaceAll(f.transforms, "MADE/columns", dir+"/columns/out")))
		j.Programs = pipelines.Programs{Dir: folder, Env: []string{"PATH=" + os.Getenv("PATH")}}
		j.Secrets = map[string]string{"KEY": "k"}
		mustRun(t, j)
		now.Digests[f.name] = treeDigest(t, filepath.Join(folder, "out"))
	}
	texts := scriptInput(t, scriptTexts(t))
	for _, s := range scripts {
		folder := t.TempDir()
		mustRun(t, job(folder, chain(t, texts, scriptChain(s.kinds, s.transforms))))
		now.Digests["scripts: "+s.name] = treeDigest(t, filepath.Join(folder, "out"))
	}
	text, err := os.ReadFile(golden)
	if err != nil && !*update {
		t.Fatal(err)
	}
	var before made
	if err := json.Unmarshal(text, &before); err != nil && !*update {
		t.Fatal(err)
	}
	known := map[string]string{}
	for name := range before.Digests {
		known[name] = now.Digests[name]
	}
	switch diff := cmp.Diff(before.Digests, known); {
	case before.Version == now.Version && diff != "":
		t.Errorf("the transforms make something else of the same spec and rows: raise Version in pipelines/version.go, lest results of "+
			"before be taken over, then run this test with -update (-before +now):\n%s", diff)
	case *update:
		text, err := json.MarshalIndent(now, "", "  ")
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(golden, append(text, '\n'), 0o666); err != nil {
			t.Fatal(err)
		}
	case cmp.Diff(before, now) != "": // another version, or cleanings that are new
		t.Errorf("%s is of other cleanings or of another version: run this test with -update", golden)
	}
}

// The fixture has them all.
func TestFixture(t *testing.T) {
	var used []string
	for _, f := range fixture {
		for _, transform := range chain(t, "", f.transforms).Transforms {
			used = append(used, transform.Type)
		}
	}
	// These change no rows, or are compared elsewhere: the graphs, and Avro, which package format reads again.
	used = append(used, "AssertEqual", "Flatten", "Partition", "ReadFromAvro")
	for _, name := range transform.Types() {
		if !slices.Contains(used, name) {
			t.Errorf("no cleaning of the fixture uses %s", name)
		}
	}
}
