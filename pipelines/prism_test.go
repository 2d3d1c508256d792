package pipelines_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	_ "github.com/apache/beam/sdks/v2/go/pkg/beam/runners/prism"
	"github.com/google/go-cmp/cmp"

	"github.com/sluiceml/sluice/pipelines"
)

// runnerVariable names the runner of Beam's that a child process runs its graph by, instead of our own.
const runnerVariable = "SLUICE_TEST_RUNNER"

// Beam's own local runner, prism, does what ours does, to the byte, whatever the graph looks like.
func TestSameAsPrism(t *testing.T) {
	var rows, more strings.Builder
	for i, row := range manyRows(1200) {
		if i%3 == 0 {
			more.WriteString(row)
		} else {
			rows.WriteString(row)
		}
	}
	for i := range 400 {
		fmt.Fprintf(&more, `{"id": %d, "text": "these are %d words that many of the rows have %d", "when": %d, "folder": "ham", "list": ["a", %d]}`+"\n",
			5000+i, i%7, i%90, i%11, i%5)
	}
	input := write(t, map[string]string{
		"a.jsonl": rows.String(), "b.jsonl": more.String(), "broken.jsonl": "{\n" + `{"id": 1}` + "\n" + `{"id": 1}` + "\n",
		"c.csv": "id,text,when,folder\n1,one,1,csv\n2,two,2,csv\n1,one,1,csv\n", "none.jsonl": "",
	})
	prism := childWith(t, runnerVariable+"=PrismRunner")
	for name, text := range graphs {
		t.Run(name, func(t *testing.T) {
			clean := func(exe string) (any, string, error) {
				dir := t.TempDir()
				j := job(dir, graphSpec(t, input, text))
				j.ProfileFile, j.AccountFile = filepath.Join(dir, "profile.json"), filepath.Join(dir, "account.jsonl")
				j.Programs = pipelines.Programs{Dir: input, Env: []string{"PATH=" + os.Getenv("PATH")}}
				out, err := pipelines.Run(t.Context(), exe, j, nil)
				if fails := name == failingGraph; (err != nil) != fails || !fails && out.Rows.Kept == 0 && name != emptyGraph {
					t.Errorf("nothing to compare: %+v, error %v", out.Rows, err)
				}
				return out, treeDigest(t, dir), err
			}
			want, wantDigest, wantErr := clean(prism)
			got, gotDigest, gotErr := clean(childWith(t))
			if diff := cmp.Diff(fmt.Sprint(wantErr), fmt.Sprint(gotErr)); diff != "" {
				t.Errorf("error (-prism +ours):\n%s", diff)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("account (-prism +ours):\n%s", diff)
			}
			if gotDigest != wantDigest {
				t.Errorf("digest %s, %s on prism", gotDigest, wantDigest)
			}
		})
	}
}

// The graphs that keep no rows, and that fail.
const (
	emptyGraph   = "nothing"
	failingGraph = "too many rejected"
)

// graphs are those that the test compares runners by, as blocks of a clean step.
var graphs = map[string]string{
	"chain": `
transforms:
- {type: ReadFromJson, config: {path: "INPUT/[ab].jsonl"}}
- {type: Deduplicate, config: {fields: [text], order_by: row.when}}
- {type: Filter, name: some, config: {keep: row.id % 10 != 0}}
- {type: Deduplicate, name: again, config: {fields: [when, folder]}}
- {type: Split, config: {key: row.text, parts: {train: 0.8, dev: 0.1, test: 0.1}}}
- {type: WriteToJson, config: {shards: 3}}
`,
	"near duplicates, two ways": `
type: composite
transforms:
- {type: ReadFromJson, config: {path: "INPUT/[ab].jsonl"}}
- {type: Filter, name: ham, input: [ReadFromJson], config: {keep: row.folder == "ham"}}
- {type: Deduplicate, name: near, input: [ham], config: {method: minhash, fields: [text], order_by: row.when, ngram: 2, bands: 20, rows: 2, threshold: 0.6}}
- {type: Deduplicate, name: nearer, input: [ReadFromJson], config: {method: minhash, fields: [text], ngram: 2, bands: 20, rows: 2, threshold: 0.9}}
- {type: WriteToJson, name: one, input: [near], config: {path: one}}
- {type: WriteToCsv, name: other, input: [nearer], config: {path: other, shards: 2, columns: [id, text]}}
`,
	"partition, combine and parquet": `
type: composite
transforms:
- {type: ReadFromJson, name: in, config: {path: "INPUT/[ab].jsonl"}}
- {type: ReadFromCsv, name: table, config: {path: INPUT/c.csv}}
- {type: MapToFields, name: typed, input: [table], config: {append: true, fields: {id: int(row.id), when: int(row.when)}}}
- {type: Flatten, name: both, input: [in, typed]}
- {type: Partition, name: by, input: [both], config: {by: row.folder, outputs: [spam, csv], unknown_output: rest}}
- {type: Combine, name: days, input: [by.spam, by.rest], config: {group_by: [when], combine: {n: {fn: count}, ids: {value: double(row.id), fn: mean}}}}
- {type: Combine, name: folders, input: [both], config: {group_by: [folder], combine: {size: {value: row.id, fn: sum}}}}
- {type: WriteToParquet, name: days_out, input: [days], config: {path: days}}
- {type: WriteToJson, name: folders_out, input: [folders], config: {path: folders}}
- {type: Deduplicate, name: once, input: [by.csv], config: {}}
- {type: WriteToCsv, name: csv_out, input: [once], config: {path: csv}}
`,
	"what is rejected": `
transforms:
- {type: ReadFromJson, name: in, config: {path: "INPUT/*.jsonl", error_handling: {output: bad, threshold: 0.5}}}
- {type: Deduplicate, config: {fields: [text], error_handling: {output: bad}}}
- {type: MapToFields, name: parse, config: {append: true, fields: {first: 'row.list[0]'}, error_handling: {output: bad}}}
- {type: ValidateWithSchema, config: {schema: {properties: {when: {maximum: 6}}}}}
- {type: WriteToJson, config: {path: good}}
extra_transforms:
- {type: MapToFields, name: why, input: [in.bad, Deduplicate.bad, parse.bad], config: {fields: {reason: row.reason, at: row.offset}}}
- {type: Deduplicate, name: reasons, input: [why], config: {}}
- {type: WriteToJson, name: bad, input: [reasons], config: {path: bad}}
`,
	"programs and explosions": `
transforms:
- {type: ReadFromJson, config: {path: "INPUT/[ab].jsonl"}}
- {type: Exec, name: echo, config: {command: [cat]}}
- {type: MapToFields, config: {append: true, fields: {list: 'has(row.list) ? row.list : ["none"]'}}}
- {type: Explode, config: {fields: [list]}}
- {type: Exec, name: again, config: {command: [cat]}}
- {type: MapToFields, name: texts, config: {fields: {text: row.text}}}
- {type: Split, config: {key: row.text, parts: {a: 0.5, b: 0.5}}}
- {type: WriteToText}
`,
	emptyGraph: `
transforms:
- {type: ReadFromJson, config: {path: INPUT/none.jsonl}}
- {type: Deduplicate, config: {}}
- {type: WriteToJson}
`,
	failingGraph: `
transforms:
- {type: ReadFromJson, config: {path: "INPUT/[ab].jsonl"}}
- {type: ValidateWithSchema, name: strict, config: {schema: {required: [list]}, error_handling: {threshold: 0.99}}}
- {type: AssertEqual, config: {elements: []}}
- {type: WriteToJson}
`,
}
