package dsl

import (
	"strings"
	"testing"

	"github.com/sluiceml/sluice/dsl/document"
)

// What a clean step reads beside its inputs may change without any key of the cache knowing.
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
