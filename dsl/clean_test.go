package dsl

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

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

// A resolved cleaning says which files it reads in place, beside its inputs: these may change.
func TestFilesReadInPlace(t *testing.T) {
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
	for path, want := range map[string][]string{
		`"${inputs.raw.path}/*"`:                              nil,
		`["${inputs.raw.path}/a", "${inputs.raw.path}/b"]`:    nil,
		`/data/*.jsonl`:                                       {"/data/*.jsonl"},
		`["${inputs.raw.path}/a", /data/b, /data/a, /data/b]`: {"/data/a", "/data/b"},
		`"${params.files}"`:                                   {"/data/*.jsonl"},
		`"${inputs.raw.path}/*"}}
        - {type: Decontaminate, config: {fields: [text], against: held.jsonl`: {"held.jsonl"},
	} {
		resolved, err := mustCompile(t, strings.ReplaceAll(text, "PATH", path)).Resolve("rows", spec.Vars{
			Params: map[string]any{"files": "/data/*.jsonl"},
			Steps: map[string]spec.StepResult{
				"fetch": {Status: spec.StatusSucceeded, Outputs: json.RawMessage(`{"raw": {"type": "dataset", "digest": "sha256:00"}}`)},
			},
		})
		if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		if diff := cmp.Diff(want, resolved.InPlace); diff != "" {
			t.Errorf("%s (-want +got):\n%s", path, diff)
		}
	}
}
