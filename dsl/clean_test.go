package dsl

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sluiceml/sluice/dsl/document"
	"github.com/sluiceml/sluice/dsl/spec"
)

// What is written short is the same step, with the same cache key.
func TestShortClean(t *testing.T) {
	const head = "sluice: pipeline/v1\nname: p\nsteps:\n  a:\n    gate: rows.kept > 0\n    clean:\n"
	tests := []struct{ name, short, long string }{
		{
			"with transforms", `
      read: "raw/*.tsv.gz"
      transforms: [{type: Filter, config: {keep: row.n != ""}}]
      write: parquet
`, `
      transforms:
        - {type: ReadFromCsv, config: {path: "raw/*.tsv.gz", delimiter: "\t"}}
        - {type: Filter, config: {keep: row.n != ""}}
        - {type: WriteToParquet}
`,
		},
		{
			"without", `
      read: [a.json, b.json.zst]
      write: json
`, `
      transforms:
        - {type: ReadFromJson, config: {path: [a.json, b.json.zst], format: document}}
        - {type: WriteToJson}
`,
		},
		{
			"one end only", `
      read: a.txt
      transforms: [{type: WriteToText, config: {shards: 2}}]
`, `
      transforms:
        - {type: ReadFromText, config: {path: a.txt}}
        - {type: WriteToText, config: {shards: 2}}
`,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var specs []string
			for _, body := range []string{tt.short, tt.long} {
				resolved, err := mustCompile(t, head+body).Resolve("a", spec.Vars{})
				if err != nil {
					t.Fatal(err)
				}
				specs = append(specs, string(resolved.Spec))
			}
			if diff := cmp.Diff(specs[1], specs[0]); diff != "" {
				t.Errorf("-long +short:\n%s", diff)
			}
		})
	}
}

// What a clean step reads beside its inputs may change without any key of the cache knowing.
//
// promise: docs/pipelines.md#p-cache-default
func TestCleanCachedByDefault(t *testing.T) {
	const text = `sluice: pipeline/v1
name: p
params: {files: {type: string, default: /data/*.jsonl}}
steps:
  fetch: {run: {command: [./fetch], outputs: {raw: {type: dataset, path: raw}}}}
  rows:
    clean:
      inputs: {raw: "${steps.fetch.raw}"}
      transforms:
        - {type: ReadFromJson, config: {path: PATH}}
        - {type: WriteToJson}
    gate: rows.kept > 0
`
	for path, want := range map[string]bool{
		`"${inputs.raw.path}/*"`: true, `["${inputs.raw.path}/a", "${inputs.raw.path}/b"]`: true,
		`/data/*.jsonl`: false, `["${inputs.raw.path}/a", /data/b]`: false, `"${params.files}"`: false, `["${params.files}", "${inputs.raw.path}/a"]`: false,
	} {
		program, diags := Compile(document.File{Name: "pipeline.yaml", Source: []byte(strings.ReplaceAll(text, "PATH", path))}, document.File{}, nil)
		if diags.HasErrors() {
			t.Fatalf("%s: %s", path, diags.Text(false))
		}
		if got := program.byID["rows"].Cache.Enabled; got != want {
			t.Errorf("%s: cached by default: %v, want %v", path, got, want)
		}
	}
}
