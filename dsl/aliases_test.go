package dsl

import (
	"fmt"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/sluiceml/sluice/dsl/document"
)

// TestAliases has the sound documents of testdata/broken with an alias wherever a value comes again: it is the same document.
func TestAliases(t *testing.T) {
	var aliases int
	for _, c := range brokenCases(t) {
		if c.theme != "valid" {
			continue
		}
		pipeline, n := aliased(t, c.pipeline.Source)
		env, m := aliased(t, c.env.Source)
		aliases += n + m
		if _, got := Compile(document.File{Name: "p.yaml", Source: pipeline}, document.File{Name: "e.yaml", Source: env}, nearlyAll{}); len(got) > 0 {
			t.Errorf("%s with aliases:\n%s\n%s", c.name, pipeline, got.Text(false))
		}
	}
	if aliases < 100 {
		t.Errorf("%d values come again: too few to show anything", aliases)
	}
}

// aliased writes a document with aliases, and returns how many.
func aliased(t *testing.T, source []byte) ([]byte, int) {
	t.Helper()
	doc := document.New(document.File{Source: source}).Parse(source)
	first, anchors, aliases := map[string]*yaml.Node{}, 0, 0
	var visit func(n *yaml.Node)
	visit = func(n *yaml.Node) {
		for i, value := range n.Content {
			if n.Kind == yaml.MappingNode && i%2 == 0 || value.Kind == yaml.AliasNode || value.Anchor != "" {
				continue
			}
			text, err := yaml.Marshal(value)
			if err != nil {
				t.Fatal(err)
			}
			same := first[value.Tag+string(text)]
			if same == nil {
				visit(value)
				first[value.Tag+string(text)] = value
				continue
			}
			if same.Anchor == "" {
				anchors++
				same.Anchor = fmt.Sprintf("again%d", anchors)
			}
			n.Content[i] = &yaml.Node{Kind: yaml.AliasNode, Value: same.Anchor, Alias: same}
			aliases++
		}
	}
	visit(doc)
	text, err := yaml.Marshal(doc)
	if err != nil {
		t.Fatal(err)
	}
	return text, aliases
}
