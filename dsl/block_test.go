package dsl_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sluiceml/sluice/dsl"
	"github.com/sluiceml/sluice/dsl/document"
	"github.com/sluiceml/sluice/dsl/inputpath"
	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/artifact"
)

func TestBlock(t *testing.T) {
	source := `
params: {min: {type: int, default: 3}}
transforms:
  - {type: ReadFromJson, config: {path: "raw/*.jsonl"}}
  - {type: Filter, config: {keep: "row.text.size() >= params.min"}}
  - {type: WriteToJson, config: {shards: 2}}
`
	program, findings := dsl.CompileBlock(document.File{Name: "b.yaml", Source: []byte(source)}, document.File{}, nil)
	if len(findings) > 0 {
		t.Fatal(findings.Text(false))
	}
	params, bad := program.Params(map[string]string{"min": "4"})
	if len(bad) > 0 {
		t.Fatal(bad.Text(false))
	}
	resolved, err := program.ResolveAlone(dsl.BlockStep, params, nil)
	if err != nil {
		t.Fatal(err)
	}
	var spec spec.Clean
	if err := json.Unmarshal(resolved.Spec, &spec); err != nil {
		t.Fatal(err)
	}
	var types []string
	for _, t := range spec.Transforms {
		types = append(types, t.Type)
	}
	if diff := cmp.Diff([]string{"ReadFromJson", "Filter", "WriteToJson"}, types); diff != "" {
		t.Error(diff)
	}
	if got := string(spec.Transforms[0].Config); !strings.Contains(got, "raw/*.jsonl") {
		t.Errorf("the path is %s", got)
	}
}

// TestCombineShort: Beam YAML's short forms are what they are short for.
func TestCombineShort(t *testing.T) {
	spec := func(combine string) string {
		text := "transforms:\n  - {type: ReadFromJson, config: {path: a}}\n  - {type: Combine, config: {group_by: k, combine: " + combine + "}}\n  - {type: WriteToJson}\n"
		program, diags := dsl.CompileBlock(document.File{Name: "b.yaml", Source: []byte(text)}, document.File{}, nil)
		if program == nil {
			t.Fatal(diags.Text(false))
		}
		resolved, err := program.ResolveAlone(dsl.BlockStep, nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		return string(resolved.Spec)
	}
	want := spec(`{a: {value: row.a, fn: sum}, A1: {value: row.A1, fn: min}, a-b: {value: 'row["a-b"]', fn: max}, in: {value: 'row["in"]', fn: any}, n: {value: row.x, fn: all}}`)
	if got := spec(`{a: sum, A1: {type: min}, a-b: max, in: any, n: {value: row.x, fn: {type: all}}}`); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// TestBlockFindings: what is wrong with a block is found where it is written.
func TestBlockFindings(t *testing.T) {
	tests := map[string]struct{ source, want string }{
		"a transform": {"transforms:\n  - {type: ReadFromJsn, config: {path: a}}\n  - {type: WriteToJson}\n", "b.yaml:2:12: error[transform]"},
		"an expression": {
			"transforms:\n  - {type: ReadFromJson, config: {path: a}}\n  - {type: Filter, config: {keep: row.a ==}}\n  - {type: WriteToJson}\n",
			"b.yaml:3:",
		},
		"a key":                       {"transform: []\n", "b.yaml:1:1: error[unknown-key]"},
		"a key that only a block has": {"parms: {}\ntransforms: []\n", "did you mean `params`?"},
		"a parameter":                 {"params: {a: {type: int, default: x}}\ntransforms: []\n", "b.yaml:1:34: error[param]"},
		"a list":                      {"- a\n", "b.yaml:1:1: error[type]"},
		"nothing":                     {"", "b.yaml:1:1: error[empty]"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			program, findings := dsl.CompileBlock(document.File{Name: "b.yaml", Source: []byte(test.source)}, document.File{}, nil)
			if program != nil || !strings.Contains(findings.Text(false), test.want) {
				t.Errorf("want %s, got:\n%s", test.want, findings.Text(false))
			}
		})
	}
}

// TestResolveAlone: the inputs of a step are what is given, wherever the pipeline would take them from.
func TestResolveAlone(t *testing.T) {
	source := `
sluice: pipeline/v1
name: p
steps:
  fetch: {run: {command: [fetch], outputs: {raw: {type: dataset, path: raw}}}}
  clean:
    clean:
      inputs: {raw: "${steps.fetch.raw}", more: "${datasets['more']}"}
      transforms:
        - {type: ReadFromJson, config: {path: ["${inputs.raw.path}/*.jsonl", "${inputs.more.path}/*.jsonl"]}}
        - {type: WriteToJson}
  each:
    foreach: "[1, 2]"
    clean:
      transforms: [{type: ReadFromJson, config: {path: "${item}"}}, {type: WriteToJson}]
`
	program, findings := dsl.Compile(document.File{Name: "p.yaml", Source: []byte(source)}, document.File{}, nil)
	if findings.HasErrors() {
		t.Fatal(findings.Text(false))
	}
	given := map[string]artifact.Ref{"raw": {Type: artifact.Dataset, Digest: "r"}, "more": {Type: artifact.Dataset, Digest: "m"}}
	resolved, err := program.ResolveAlone("clean", nil, given)
	if err != nil {
		t.Fatal(err)
	}
	text, err := inputpath.Replace(string(resolved.Spec), map[string]string{"raw": "/r", "more": "/m"})
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{`"/r/*.jsonl"`, `"/m/*.jsonl"`} {
		if !strings.Contains(text, path) {
			t.Errorf("%s is not in %s", path, text)
		}
	}
	for name, test := range map[string]struct {
		step  string
		given map[string]artifact.Ref
		want  string
	}{
		"too few":   {"clean", map[string]artifact.Ref{"raw": given["raw"]}, "needs a folder for its input `more`"},
		"unknown":   {"clean", map[string]artifact.Ref{"row": given["raw"]}, "has no input `row`"},
		"instances": {"each", nil, "cannot be run by itself"},
		"no step":   {"none", nil, "none"},
	} {
		if _, err := program.ResolveAlone(test.step, nil, test.given); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestAloneNeedsNoOthers: a cleaning that is done by itself needs nothing of an environment that only other steps name.
func TestAloneNeedsNoOthers(t *testing.T) {
	source := `
sluice: pipeline/v1
name: p
notify: {ops: {email: {to: [a@example.com]}, on: [fail]}}
steps:
  rows:
    clean:
      pool: big
      transforms:
        - {type: ReadFromJson, config: {path: "raw/*.jsonl"}}
        - {type: WriteToJson}
  fit:
    train: {command: [python3, train.py], inputs: {rows: "${steps.rows.dataset}"}, pool: gpu, metrics: [f1]}
    secrets: {TOKEN: token}
    gate: metrics.f1 > serving.shop.steps.fit.metrics.f1
`
	file := document.File{Name: "p.yaml", Source: []byte(source)}
	program, findings := dsl.CompileAlone(file, document.File{}, nil, false)
	if program == nil {
		t.Fatal(findings.Text(false))
	}
	if _, err := program.ResolveAlone("rows", nil, nil); err != nil {
		t.Error(err)
	}
	if program.Environment() == nil {
		t.Error("there is no environment")
	}
	if program, _ := dsl.Compile(file, document.File{}, nil); program != nil {
		t.Error("the pipeline can be run without an environment")
	}
}
