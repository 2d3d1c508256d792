package dsl

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"

	"github.com/sluiceml/sluice/dsl/document"
	"github.com/sluiceml/sluice/dsl/spec"
)

// TestTextsAreAsWritten: what stands for a text is the text that was written, though YAML would read a number or a bool in it.
func TestTextsAreAsWritten(t *testing.T) {
	const doc = `sluice: pipeline/v1
name: p
params:
  short: {type: string, default: 3.10}
  long: {type: string, default: 1.10}
  hex: {type: string, default: 0x1F}
  power: {type: string, default: 1e3}
  agent: {type: string, default: 007}
  yes: {type: string, default: True}
  many: {type: string, default: 1_000}
  version: {type: enum, values: [1.9, 1.10], default: 1.10}
  list: {type: list, default: [1.9, 1.10, x]}
  map: {type: map, items: string, default: {a: 1.10}}
  number: {type: double, default: 1.10}
  given: {type: string, default: x}
triggers:
  night: {schedule: {every: 1h}, params: {given: 1.10, list: [1.10], number: 2.50}}
steps:
  a: {run: {command: [echo, "${params.short}${params.long}${params.hex}${params.power}${params.agent}${params.yes}${params.many}${params.version}"]}}
  b: {foreach: params.list, run: {command: [echo, "${item}${params.map.a}${params.number}${params.given}"]}}
  child: {pipeline: {file: child.yaml, params: {text: 1.10, texts: [1.10], number: 1.10}}}
  ask: {approval: {fields: {text: {type: string, default: 1.10}}}}
`
	const child = `sluice: pipeline/v1
name: child
params: {text: {type: string}, texts: {type: list}, number: {type: double}}
steps: {a: {foreach: params.texts, run: {command: [echo, "${item}${params.text}${params.number}"]}}}
`
	files := archive{&txtar.Archive{Files: []txtar.File{{Name: "child.yaml", Data: []byte(child)}}}}
	p, diags := Compile(document.File{Name: "p.yaml", Source: []byte(doc)}, document.File{}, files)
	if len(diags) > 0 {
		t.Fatal(diags.Text(false))
	}
	got, _ := p.Params(nil)
	want := map[string]any{
		"short": "3.10", "long": "1.10", "hex": "0x1F", "power": "1e3", "agent": "007", "yes": "True", "many": "1_000", "version": "1.10",
		"list": []any{"1.9", "1.10", "x"}, "map": map[string]any{"a": "1.10"}, "number": 1.1, "given": "x",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("defaults (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(spec.Values{"given": "1.10", "list": []any{"1.10"}, "number": 2.5}, p.Pipeline().Triggers["night"].Params); diff != "" {
		t.Errorf("of a trigger (-want +got):\n%s", diff)
	}
	resolved, err := p.Resolve("child", spec.Vars{})
	if err != nil {
		t.Fatal(err)
	}
	var sp spec.ChildPipeline
	if err := json.Unmarshal(resolved.Spec, &sp); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(spec.Values{"text": "1.10", "texts": []any{"1.10"}, "number": 1.1}, sp.Params); diff != "" {
		t.Errorf("of a child (-want +got):\n%s", diff)
	}
	ask, err := p.Resolve("ask", spec.Vars{})
	if err != nil {
		t.Fatal(err)
	}
	var approval spec.Approval
	if err := json.Unmarshal(ask.Spec, &approval); err != nil {
		t.Fatal(err)
	}
	if fields, err := approval.CheckFields(nil); err != nil || fields["text"] != "1.10" {
		t.Errorf("of an approval: %v, %v", fields, err)
	}
}
