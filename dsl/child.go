package dsl

import (
	"slices"

	"github.com/google/cel-go/cel"
	"go.yaml.in/yaml/v3"

	"github.com/sluiceml/sluice/dsl/document"
)

// ChildPipeline runs another pipeline as a child: exactly one of file and steps. The child sees its own params and nothing else of its
// parent.
type ChildPipeline struct {
	// File is the child's document, relative to the folder of the pipeline that is run.
	File string `json:"file,omitempty" dsl:"literal"`
	// Params of the child. A file declares what it takes; for steps written here these are all the params there are, each of the type of
	// its value.
	Params map[string]any `json:"params,omitempty" dsl:"names"`
	// Steps are the child, written in place.
	Steps Steps `json:"steps,omitempty"`
	// Outputs are what steps written here hand on. A file declares its own.
	Outputs ChildOutputs `json:"outputs,omitempty" dsl:"names"`
	// Source is the document of steps written here.
	Source string `json:"source,omitempty" dsl:"-"`
}

// ChildOutputs are the outputs of steps written in place. Their expressions see the child.
type ChildOutputs map[string]any

// Kind implements Spec.
func (*ChildPipeline) Kind() Kind { return KindPipeline }

// Document is what to compile when the child runs: a file of the workspace, by name, or else the source of steps written in place.
// Params are checked by the ChildParams of what it compiles to.
func (spec *ChildPipeline) Document() (file string, source []byte) {
	return spec.File, []byte(spec.Source)
}

// childPipelineOutputs are what a child hands on. They are known once it was compiled: see children.go.
func childPipelineOutputs(_ *typeSystem, _ string, _ *ChildPipeline) map[string]*cel.Type {
	return map[string]*cel.Type{}
}

func checkChildPipeline(c *checker, s *step, spec *ChildPipeline) {
	key := document.KeyNode(s.node, string(KindPipeline))
	kind := exactlyOne(c.src, key, s.body, "a child pipeline", "file", "steps")
	if at := document.Lookup(s.body, "outputs"); at != nil && kind == "file" {
		c.src.Errorf(document.KeyNode(s.body, "outputs"), "one-of", "write them into "+spec.File, "a child that is a file declares its outputs itself")
	}
	if ch := c.children[s]; ch != nil {
		c.checkGiven(s, ch)
	}
	if kind == "file" && spec.File == "" {
		c.src.Errorf(document.Lookup(s.body, "file"), "required", "name a pipeline", "the name of the file is empty")
	}
}

// completeChild writes the document of steps written in place. A param whose type was not known has that of its value.
func completeChild(spec *ChildPipeline, s *step) error {
	doc := s.childDocument
	if doc == nil {
		return nil
	}
	if len(s.childUntyped) > 0 {
		left := document.MaxPlain
		doc = document.Plain(doc, &left)
		for _, name := range s.childUntyped {
			*document.Lookup(doc, "params", name) = *declaration(&yaml.Node{}, paramFor(spec.Params[name]))
		}
	}
	source, err := yaml.Marshal(doc)
	spec.Source = string(source)
	return err
}

// declaration is a parameter as it is written in a document, in the place of another node.
func declaration(at *yaml.Node, p Param) *yaml.Node {
	n := &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map", Line: at.Line, Column: at.Column, Content: []*yaml.Node{textNode(at, "type"), textNode(at, p.Type)}}
	if p.Items != "" {
		n.Content = append(n.Content, textNode(at, "items"), textNode(at, p.Items))
	}
	return n
}

func textNode(at *yaml.Node, text string) *yaml.Node {
	return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: text, Line: at.Line, Column: at.Column}
}

// paramFor is the parameter that takes a value as it is in JSON. Every number is a double, as what steps measure is.
func paramFor(v any) Param {
	switch v := v.(type) {
	case bool:
		return Param{Type: "bool"}
	case float64:
		return Param{Type: "double"}
	case []any:
		p := Param{Type: "list"}
		if len(v) > 0 {
			p.Items = paramFor(v[0]).Type
		}
		return p
	case map[string]any:
		if name, ok := v["type"].(string); ok && v["digest"] != nil && isArtifact(name) {
			return Param{Type: name}
		}
		p := Param{Type: "map"}
		for _, item := range v {
			p.Items = paramFor(item).Type
		}
		return p
	}
	return Param{Type: "string"}
}

// childForms leave to the child what its own loader reads. It returns what puts the parent's forms back.
func childForms(d *decoder) (restore func()) {
	outer := d.forms[stepsType]
	skip := func(*yaml.Node, rules) (value, bool) { return literal{nil}, true }
	d.forms[stepsType], d.forms[childOutputsType] = skip, skip
	return func() { d.forms[stepsType] = outer }
}

// childParam is the parameter that takes values of a type; false when none does.
func childParam(t *cel.Type) (Param, bool) {
	for _, typ := range []string{"string", "int", "double", "bool", "duration", "timestamp", "dataset", "model"} {
		if p := (Param{Type: typ}); paramType(p) != nil && paramType(p).IsExactType(t) {
			return p, true
		}
	}
	for _, typ := range []string{"list", "map"} {
		for _, items := range []string{"string", "int", "double", "bool"} {
			if p := (Param{Type: typ, Items: items}); paramType(p) != nil && paramType(p).IsExactType(t) {
				return p, true
			}
		}
	}
	return Param{}, false
}

// takes reports whether a parameter takes values of a type.
func takes(p Param, t *cel.Type) bool {
	want := paramType(p)
	text := slices.Contains([]string{"duration", "timestamp"}, p.Type) && t.IsExactType(cel.StringType)
	number := p.Type == "double" && t.IsExactType(cel.IntType)
	return want == nil || text || number || want.IsAssignableType(t)
}
