package dsl

import (
	"slices"

	"github.com/google/cel-go/cel"
	"go.yaml.in/yaml/v3"

	"github.com/sluiceml/sluice/dsl/decode"
	"github.com/sluiceml/sluice/dsl/document"
	"github.com/sluiceml/sluice/dsl/expr"
	"github.com/sluiceml/sluice/dsl/spec"
)

// childPipelineOutputs are what a child hands on. They are known once it was compiled: see children.go.
func childPipelineOutputs(_ *expr.TypeSystem, _ string, _ *spec.ChildPipeline) expr.ObjectType {
	return expr.ObjectType{Fields: map[string]*cel.Type{}}
}

func checkChildPipeline(c *checker, s *step, sp *spec.ChildPipeline) {
	key := s.kindKey()
	kind := decode.ExactlyOne[spec.ChildPipeline](c.src, key, s.body, "a child pipeline")
	if at := document.Lookup(s.body, "outputs"); at != nil && kind == "file" {
		c.src.Errorf(document.KeyNode(s.body, "outputs"), "one-of", "write them into "+sp.File, "a child pipeline in a file declares its own outputs")
	}
	if ch := c.children[s]; ch != nil {
		c.checkGiven(s, ch)
	}
	if kind == "file" && sp.File == "" {
		c.src.Errorf(document.Lookup(s.body, "file"), "required", "name a pipeline", "the file name is empty")
	}
}

// completeChild writes the document of steps written in place. A param whose type was not known has that of its value.
func completeChild(spec *spec.ChildPipeline, s *step) error {
	doc := s.childDocument
	if doc == nil {
		return nil
	}
	if len(s.childUntyped) > 0 {
		left := document.MaxPlain
		doc = document.Plain(doc, &left)
		for _, name := range s.childUntyped {
			*document.Lookup(doc, "params", name) = *declaration(&yaml.Node{}, expr.ParamFor(spec.Params[name]))
		}
	}
	source, err := yaml.Marshal(doc)
	spec.Source = string(source)
	return err
}

// declaration is a parameter as it is written in a document, in the place of another node.
func declaration(at *yaml.Node, p spec.Param) *yaml.Node {
	n := document.NewMapping(at, document.NewScalar(at, "type"), document.NewScalar(at, p.Type))
	if p.Items != "" {
		n.Content = append(n.Content, document.NewScalar(at, "items"), document.NewScalar(at, p.Items))
	}
	if p.Secret {
		n.Content = append(n.Content, document.NewScalar(at, "secret"), &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!bool", Value: "true", Line: at.Line, Column: at.Column})
	}
	return n
}

// childForms leave to the child what its own loader reads. It returns what puts the parent's forms back.
func childForms(d *decode.Decoder) (restore func()) {
	outer := d.Forms[stepsType]
	skip := func(*yaml.Node, spec.Rules) (expr.Value, bool) { return expr.Literal{Value: nil}, true }
	d.Forms[stepsType], d.Forms[childOutputsType] = skip, skip
	return func() { d.Forms[stepsType] = outer }
}

// takes reports whether a parameter takes values of a type.
func takes(p spec.Param, t *cel.Type) bool {
	want := expr.ParamType(p)
	text := slices.Contains([]string{"duration", "timestamp"}, p.Type) && t.IsExactType(cel.StringType)
	number := p.Type == "double" && t.IsExactType(cel.IntType)
	return want == nil || text || number || want.IsAssignableType(t)
}
