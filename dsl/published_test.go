package dsl_test

import (
	"testing"

	"github.com/sluiceml/sluice/dsl"
	"github.com/sluiceml/sluice/dsl/document"
)

// A run records only the published names that its pipeline may read, and all of them if an expression computes the name.
func TestReadsPublished(t *testing.T) {
	const head = "sluice: pipeline/v1\nname: p\nparams: {x: {type: string, default: a}}\nsteps:\n"
	input := func(e string) string {
		return head + "  use:\n    run: {command: [cat], inputs: {it: \"${" + e + "}\"}}\n"
	}
	clean := func(against string) string {
		return head + "  get:\n    run: {command: [cat], outputs: {raw: {type: dataset, path: raw}}}\n  tidy:\n    clean:\n      inputs: {raw: \"${steps.get.raw}\"}\n" +
			"      read: \"${inputs.raw.path}/*.jsonl\"\n      write: json\n" + against
	}
	for _, c := range []struct {
		name, text      string
		a, tagged, b, m bool
	}{
		{name: "a name", text: input("datasets['a']"), a: true},
		{name: "a field", text: input("datasets.a"), a: true},
		{name: "a tag", text: input("datasets['a@good']"), tagged: true},
		{name: "a computed name", text: input("datasets[params.x]"), a: true, tagged: true, b: true},
		{name: "a model", text: input("models['m']"), m: true},
		{name: "no drift", text: clean("")},
		{name: "drift against the last", text: clean("      drift: {against: last}\n")},
		{name: "drift against a name", text: clean("      drift: {against: b}\n"), b: true},
		{name: "drift against a computed name", text: clean("      drift: {against: \"${params.x}\"}\n"), a: true, tagged: true, b: true},
	} {
		program, diags := dsl.Compile(document.File{Name: "p.yaml", Source: []byte(c.text)}, document.File{}, nil)
		if program == nil {
			t.Fatalf("%s: %v", c.name, diags)
		}
		got := [...]bool{
			program.ReadsPublished("datasets", "a"), program.ReadsPublished("datasets", "a@good"), program.ReadsPublished("datasets", "b"),
			program.ReadsPublished("models", "m"),
		}
		if want := [...]bool{c.a, c.tagged, c.b, c.m}; got != want {
			t.Errorf("%s: got %v, want %v", c.name, got, want)
		}
	}
}
