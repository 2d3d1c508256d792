package dsl

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"
	"go.yaml.in/yaml/v3"
	"pgregory.net/rapid"

	"github.com/sluiceml/sluice/dsl/document"
	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/artifact"
)

const withChildren = `-- p.yaml --
sluice: pipeline/v1
name: parent
params: {n: {type: int, default: 2}, xs: {type: list, items: int, default: [1, 2]}}
steps:
  raw: {run: {command: [echo], outputs: {mail: {type: dataset, path: m}}}}
  file:
    pipeline: {file: ./fit.yaml, params: {mail: "${steps.raw.mail}", epochs: "${params.n * 2}"}}
    gate: f1 > 0.5 && best.f1 > 0.5
  inline:
    pipeline:
      params: {mail: "${steps.raw.mail}", f1: "${steps.file.f1}", xs: "${params.xs}", word: "n=${params.n}", ys: ["${params.n}", 5]}
      steps: &steps
        say:
          run:
            script: |
              echo "$F1"   # not interpolated

              echo '  two spaces'
            outputs: {n: {type: int}}
          env: {F1: "${params.f1}", A: &a "${params.word}", B: *a, C: "${params.ys[1] + params.xs[0]}", M: "${params.mail.digest}"}
          gate: n > 0
      outputs: {n: "${steps.say.n}", twice: "${2 * steps.say.n}", text: "is ${steps.say.n}", rate: "${params.f1}"}
  reader:
    run: {command: [echo, "${steps.inline.n + 1}", "${steps.inline.rate * 2.0}", "${steps.inline.text}", "${steps.file.f1}"], inputs: {m: "${steps.file.model}"}}
-- fit.yaml --
sluice: pipeline/v1
name: fit
params: {mail: {type: dataset}, epochs: {type: int, min: 1}}
outputs: {f1: "${steps.a.metrics.f1}", best: "${steps.a.metrics}", model: "${steps.a.model}"}
steps:
  a:
    train: {command: [echo, "${params.epochs}"], inputs: {mail: "${params.mail}"}, outputs: {model: {type: model, path: m}}, metrics: [f1]}
`

func compileArchive(t *testing.T, text string) (*Program, archive) {
	t.Helper()
	a := archive{txtar.Parse([]byte(text))}
	p, diags := Compile(document.File{Name: "p.yaml", Source: a.file("p.yaml")}, document.File{}, a)
	if len(diags) > 0 {
		t.Fatal(diags.Text(false))
	}
	return p, a
}

func TestChildren(t *testing.T) {
	p, a := compileArchive(t, withChildren)
	mail := artifact.Ref{Type: artifact.Dataset, Digest: "sha256:ab", Bytes: 5, Files: 1}
	model := artifact.Ref{Type: artifact.Model, Digest: "sha256:cd", Bytes: 7, Files: 1}
	outputs := func(v any) spec.StepResult {
		raw, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		return spec.StepResult{Status: spec.StatusSucceeded, Outputs: raw}
	}
	vars := spec.Vars{Params: map[string]any{"n": int64(2), "xs": []any{1.0, 2.0}}, Steps: map[string]spec.StepResult{
		"raw":    outputs(map[string]any{"mail": mail}),
		"file":   outputs(map[string]any{"f1": 1, "best": map[string]any{"f1": 0.9}, "model": model}),
		"inline": outputs(map[string]any{"n": 3, "rate": 1, "text": "is 3"}),
	}}

	file := resolveChild(t, p, "file", vars)
	if name, source := file.Document(); name != "./fit.yaml" || len(source) > 0 {
		t.Errorf("%q, %q", name, source)
	}
	fit := childProgram(t, "fit.yaml", a.file("fit.yaml"), a)
	if diff := cmp.Diff(map[string]any{"mail": mail, "epochs": int64(4)}, childParams(t, fit, file)); diff != "" {
		t.Error(diff)
	}
	if checks, verdict := p.EvaluateGate("file", vars.Steps["file"].Outputs, vars); verdict != spec.VerdictPass {
		t.Errorf("%+v", checks)
	}

	inline := resolveChild(t, p, "inline", vars)
	name, source := inline.Document()
	say := childProgram(t, name, source, nil)
	given := childParams(t, say, inline)
	want := map[string]any{"mail": mail, "f1": 1.0, "xs": []any{int64(1), int64(2)}, "word": "n=2", "ys": []any{int64(2), int64(5)}}
	if diff := cmp.Diff(want, given); diff != "" {
		t.Error(diff)
	}
	if got := say.Pipeline().Name; got != "parent.inline" {
		t.Error(got)
	}
	r, err := say.Resolve("say", spec.Vars{Params: given})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]string{"F1": "1", "A": "n=2", "B": "n=2", "C": "6", "M": "sha256:ab"}, r.Env); diff != "" {
		t.Error(diff)
	}
	sp, err := spec.Decode[spec.Run](r.Spec)
	if err != nil || sp.Script != "echo \"$F1\"   # not interpolated\n\necho '  two spaces'\n" {
		t.Errorf("%v: %s", err, r.Spec)
	}
	out, err := say.Outputs(spec.Vars{Params: given, Steps: map[string]spec.StepResult{"say": outputs(map[string]any{"n": 3})}})
	if diff := cmp.Diff(map[string]any{"n": int64(3), "twice": int64(6), "text": "is 3", "rate": 1.0}, out); diff != "" || err != nil {
		t.Error(err, diff)
	}

	r, err = p.Resolve("reader", vars)
	if err != nil {
		t.Fatal(err)
	}
	sp, err = spec.Decode[spec.Run](r.Spec)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"echo", "4", "2", "is 3", "1"}, sp.Command.Command); diff != "" {
		t.Error(diff)
	}
}

func resolveChild(t *testing.T, p *Program, id string, vars spec.Vars) *spec.ChildPipeline {
	t.Helper()
	r, err := p.Resolve(id, vars)
	if err != nil {
		t.Fatal(err)
	}
	sp, err := spec.Decode[spec.ChildPipeline](r.Spec)
	if err != nil {
		t.Fatal(err)
	}
	return &sp
}

func childProgram(t *testing.T, name string, source []byte, ws document.Workspace) *Program {
	t.Helper()
	p, diags := Compile(document.File{Name: name, Source: source}, document.File{}, ws)
	if p == nil {
		t.Fatalf("%s\n%s", source, diags.Text(false))
	}
	return p
}

func childParams(t *testing.T, p *Program, spec *spec.ChildPipeline) map[string]any {
	t.Helper()
	given, diags := p.ChildParams(spec.Params)
	if len(diags) > 0 {
		t.Fatal(diags.Text(false))
	}
	return given
}

// TestChildUnknown: without a workspace anything may be read of a child that is a file, and its gate sees it.
func TestChildUnknown(t *testing.T) {
	a := archive{txtar.Parse([]byte(withChildren))}
	p := mustCompile(t, string(a.file("p.yaml")))
	outputs := json.RawMessage(`{"f1": 0.75, "best": {"f1": 0.9}}`)
	if checks, verdict := p.EvaluateGate("file", outputs, spec.Vars{}); verdict != spec.VerdictPass {
		t.Errorf("%+v", checks)
	}
	vars := spec.Vars{Params: map[string]any{"n": int64(2), "xs": []any{1.0}}, Steps: map[string]spec.StepResult{
		"raw":  {Status: spec.StatusSucceeded, Outputs: json.RawMessage(`{"mail": {"type": "dataset", "digest": "sha256:ab"}}`)},
		"file": {Status: spec.StatusSucceeded, Outputs: outputs},
	}}
	inline := resolveChild(t, p, "inline", vars)
	name, source := inline.Document()
	child := childProgram(t, name, source, nil)
	if got := child.Pipeline().Params["f1"].Type; got != "double" {
		t.Errorf("a number is a %s", got)
	}
	childParams(t, child, inline)
	if checks, verdict := p.EvaluateGate("file", json.RawMessage(`{"f1": 0.75}`), spec.Vars{}); verdict != spec.VerdictError {
		t.Errorf("%+v", checks)
	}
}

// TestManyChildren: one file may be run by any number of steps; it is compiled once.
func TestManyChildren(t *testing.T) {
	var b strings.Builder
	b.WriteString("-- p.yaml --\nsluice: pipeline/v1\nname: p\nsteps:\n")
	for i := range 5_000 {
		fmt.Fprintf(&b, "  s%d: {pipeline: {file: c.yaml}}\n", i)
	}
	b.WriteString("-- c.yaml --\nsluice: pipeline/v1\nname: c\nsteps: {a: {run: {command: [echo]}}}\n")
	compileArchive(t, b.String())
}

// TestPlain: a tree with aliases says the same when they are written out.
func TestPlain(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var shared *yaml.Node
		tree := drawTree(t, 4, &shared)
		left := document.MaxPlain
		text, err := yaml.Marshal(document.Plain(tree, &left))
		if err != nil {
			t.Fatal(err)
		}
		var want, got any
		if err := tree.Decode(&want); err != nil {
			t.Fatal(err)
		}
		if err := yaml.Unmarshal(text, &got); err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("%s\n%s", diff, text)
		}
	})
}

func drawTree(t *rapid.T, depth int, shared **yaml.Node) *yaml.Node {
	kind := rapid.IntRange(0, 3).Draw(t, "kind")
	if depth == 0 {
		kind = 0
	}
	n := &yaml.Node{}
	switch kind {
	case 0:
		style := rapid.SampledFrom([]yaml.Style{0, yaml.LiteralStyle, yaml.FoldedStyle, yaml.DoubleQuotedStyle, yaml.SingleQuotedStyle}).Draw(t, "style")
		n.Kind, n.Tag, n.Style = yaml.ScalarNode, "!!str", style
		n.Value = rapid.StringOf(rapid.SampledFrom([]rune("ab 1:#\n'\"${}-!&*\té"))).Draw(t, "text")
	case 1:
		n.Kind, n.Tag = yaml.SequenceNode, "!!seq"
		for range rapid.IntRange(0, 3).Draw(t, "items") {
			n.Content = append(n.Content, drawTree(t, depth-1, shared))
		}
	case 2:
		n.Kind, n.Tag = yaml.MappingNode, "!!map"
		for i := range rapid.IntRange(0, 3).Draw(t, "entries") {
			key := &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: fmt.Sprintf("k%d", i)}
			n.Content = append(n.Content, key, drawTree(t, depth-1, shared))
		}
	case 3:
		if *shared == nil {
			n = drawTree(t, 0, shared)
			n.Anchor = "a"
			*shared = n
			return n
		}
		return &yaml.Node{Kind: yaml.AliasNode, Value: "a", Alias: *shared}
	}
	return n
}

// TestChildAliases: a few aliases of aliases do not make a document of millions of values.
func TestChildAliases(t *testing.T) {
	n := &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: "x"}
	for range 20 {
		n = &yaml.Node{Kind: yaml.SequenceNode, Tag: "!!seq", Content: []*yaml.Node{{Kind: yaml.AliasNode, Alias: n}, {Kind: yaml.AliasNode, Alias: n}}}
	}
	if left := document.MaxPlain; document.Plain(n, &left) == nil || left >= 0 {
		t.Error("a million values were written")
	}
}
