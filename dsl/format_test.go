package dsl

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"
	"go.yaml.in/yaml/v3"
	"pgregory.net/rapid"

	"github.com/sluiceml/sluice/dsl/document"
)

// TestFormat compares the whole text for each case in testdata/format: `in`, and what it becomes in `want`; without a `want` it
// stays as it is. A `\t` written as <TAB> stands for a tab, `·` for a blank, which an editor would not keep.
func TestFormat(t *testing.T) {
	cases, err := filepath.Glob("testdata/format/*.txtar")
	if err != nil || len(cases) == 0 {
		t.Fatalf("%d cases, %v", len(cases), err)
	}
	visible := strings.NewReplacer("<TAB>", "\t", "·", " ")
	for _, path := range cases {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".txtar"), func(t *testing.T) {
			parsed, err := txtar.ParseFile(path)
			if err != nil {
				t.Fatal(err)
			}
			a := archive{parsed}
			in := visible.Replace(string(a.file("in")))
			want := visible.Replace(string(a.file("want")))
			if a.file("want") == nil {
				want = in
			}
			got, diags := document.Format(document.File{Name: "in", Source: []byte(in)})
			if len(diags) > 0 {
				t.Fatal(diags)
			}
			if diff := cmp.Diff(want, string(got)); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
			checkFormat(t, []byte(in))
		})
	}
}

// TestFormatKeepsOurs: the documents of the repository are laid out already.
func TestFormatKeepsOurs(t *testing.T) {
	for path, data := range goodDocuments(t) {
		got, diags := document.Format(document.File{Name: path, Source: data})
		if len(diags) > 0 {
			t.Fatal(diags)
		}
		if diff := cmp.Diff(string(data), string(got)); diff != "" {
			t.Errorf("%s -want +got:\n%s", path, diff)
		}
	}
}

// TestFormatOddEnds: what cannot stand in a golden file.
func TestFormatOddEnds(t *testing.T) {
	for in, want := range map[string]string{
		"a: 1":                        "a: 1\n",
		"a: 1\n\n\n":                  "a: 1\n",
		"\n\na: 1\n":                  "a: 1\n",
		"\ufeffa: 1\r\nb:\r\n- 2\r\n": "a: 1\nb:\n  - 2\n",
		"a: |\n    x":                 "a: |\n  x",
		"a: |\n    x\n\n\n":           "a: |\n  x\n",
		"a: |+\n    x\n\n\n":          "a: |+\n  x\n\n\n",
		"a: |+\n    x\n\n\nb: 1":      "a: |+\n  x\n\n\nb: 1\n",
		"a: |-\n\n\n    x\n":          "a: |-\n\n\n  x\n",
		"# only\na: 1 #   x":          "# only\na: 1 #   x\n",
	} {
		got, diags := document.Format(document.File{Name: "in", Source: []byte(in)})
		if len(diags) > 0 || string(got) != want {
			t.Errorf("%q became %q, want %q: %s", in, got, want, diags)
		}
	}
}

// TestFormatRefuses: what cannot be read is told with its place.
func TestFormatRefuses(t *testing.T) {
	for in, want := range map[string]string{
		"a: [":              "in:1:",
		"a:\n\t- b":         "in:2:1: error[tab]",
		"a: \x00":           "in:1:4: error[encoding]",
		"":                  "in:1:1: error[empty]",
		"a: 1\n---\nb: 2\n": "error[documents]",
		"a: \"x\u2028y\"\n": "in:1:6: error[format]",
	} {
		got, diags := document.Format(document.File{Name: "in", Source: []byte(in)})
		if got != nil || !strings.Contains(diags.Text(false), want) {
			t.Errorf("%q became %q, with %s, want %s", in, got, diags, want)
		}
	}
}

// checkFormat: the layout of a layout is that layout, it means the same, and no comment is lost.
func checkFormat(t interface{ Fatalf(string, ...any) }, in []byte) {
	out, diags := document.Format(document.File{Name: "in", Source: in})
	if out == nil {
		t.Fatalf("%q is not laid out: %s", in, diags)
	}
	again, diags := document.Format(document.File{Name: "out", Source: out})
	if string(again) != string(out) {
		t.Fatalf("%q became %q, and that %q: %s", in, out, again, diags)
	}
	if bytes.ContainsRune(in, '*') {
		return // aliases may stand for more than can be compared, and Format has compared the trees
	}
	var before, after any
	if err := yaml.Unmarshal(in, &before); err != nil {
		return // a tree that no value is made of, as of two equal keys
	}
	if err := yaml.Unmarshal(out, &after); err != nil {
		t.Fatalf("%q became %q: %v", in, out, err)
	}
	if a, b := fmt.Sprintf("%#v", before), fmt.Sprintf("%#v", after); a != b {
		t.Fatalf("%q became %q: %s, %s", in, out, a, b)
	}
}

// TestFormatAnyLayout: whatever way the YAML encoder lays values out, Format keeps them.
func TestFormatAnyLayout(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var b strings.Builder
		enc := yaml.NewEncoder(&b)
		enc.SetIndent(rapid.IntRange(2, 8).Draw(t, "indent"))
		if err := enc.Encode(drawNode(t, 0)); err != nil {
			t.Fatal(err)
		}
		if yaml.Unmarshal([]byte(b.String()), new(yaml.Node)) != nil {
			t.Skip("the encoder wrote what it cannot read")
		}
		checkFormat(t, []byte(b.String()))
	})
}

// drawNode is any value, in any style.
func drawNode(t *rapid.T, depth int) *yaml.Node {
	n := &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str"}
	kind := rapid.IntRange(0, 4).Draw(t, "kind")
	if rapid.Bool().Draw(t, "comment") {
		n.LineComment = "# " + rapid.StringMatching(`[a-z#'"{]{1,8}`).Draw(t, "text")
	}
	if depth > 4 || kind > 1 && depth > 0 {
		n.Value = rapid.StringMatching(`[a-zA-Z0-9 :#'"{}\[\],&*!|>%@\n\\-]{0,30}`).Draw(t, "value")
		n.Style = rapid.SampledFrom([]yaml.Style{0, yaml.DoubleQuotedStyle, yaml.SingleQuotedStyle, yaml.LiteralStyle, yaml.FoldedStyle}).Draw(t, "style")
		return n
	}
	n.Tag, n.LineComment = "", ""
	if rapid.IntRange(0, 3).Draw(t, "flow") == 0 {
		n.Style = yaml.FlowStyle
	}
	size := rapid.IntRange(0, 4).Draw(t, "size")
	n.Kind = yaml.SequenceNode
	if kind != 0 || depth == 0 {
		n.Kind = yaml.MappingNode
	}
	for i := range size {
		if n.Kind == yaml.MappingNode {
			key := &yaml.Node{Kind: yaml.ScalarNode, Value: "k" + string(rune('a'+i))}
			if rapid.IntRange(0, 3).Draw(t, "above") == 0 && n.Style != yaml.FlowStyle {
				key.HeadComment = "# above"
			}
			n.Content = append(n.Content, key)
		}
		n.Content = append(n.Content, drawNode(t, depth+1))
	}
	return n
}

// FuzzFormat: no text panics, and what is laid out keeps its meaning and stays as it is when it is laid out again.
func FuzzFormat(f *testing.F) {
	for _, pattern := range []string{"testdata/lint/*.txtar", "testdata/format/*.txtar"} {
		cases, err := filepath.Glob(pattern)
		if err != nil {
			f.Fatal(err)
		}
		for _, path := range cases {
			a, err := txtar.ParseFile(path)
			if err != nil {
				f.Fatal(err)
			}
			for _, file := range a.Files {
				f.Add(file.Data)
			}
		}
	}
	demo, err := os.ReadFile("../examples/spam/pipeline.yaml")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(demo)
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) > 1<<14 {
			t.Skip()
		}
		out, diags := document.Format(document.File{Name: "f.yaml", Source: data})
		if (out == nil) != diags.HasErrors() {
			t.Fatalf("no text: %v; %s", out == nil, diags)
		}
		if out != nil {
			checkFormat(t, data)
		}
	})
}
