package transform

import (
	"github.com/google/cel-go/cel"
	"go.yaml.in/yaml/v3"

	"github.com/sluiceml/sluice/dsl/document"
	"github.com/sluiceml/sluice/dsl/spec"
)

// MapToFields computes fields. If an expression cannot be evaluated, for example because a field is missing, the row is rejected.
type MapToFields struct {
	// Fields by name, each a CEL expression over the row as it came in.
	Fields map[string]spec.Expr `json:"fields,omitempty"`
	// Append keeps the row's other fields. Default: the row has only the computed fields.
	Append bool `json:"append,omitempty"`
	// Drop lists fields to leave out of those that `append` keeps.
	Drop []string `json:"drop,omitempty" dsl:"single"`
	// Language of the expressions: cel.
	Language string `json:"language,omitempty" dsl:"enum=cel"`
	ErrorKeys
}

// Check demands that something is computed or kept.
func (MapToFields) Check(r document.Reporter, _ StepFacts, config *yaml.Node) {
	if document.TextAt(config, "append") == "true" {
		return
	}
	fields := document.Lookup(config, "fields")
	switch drop := document.Lookup(config, "drop"); {
	case config == nil:
	case drop != nil:
		r.Errorf(drop, "required", "add `append: true`", "`drop` has no effect: without `append` only the computed fields are kept")
	case fields == nil || len(fields.Content) == 0:
		r.Errorf(config, "required", "add `fields: {NAME: EXPRESSION}`", "the rows would have no fields")
	}
}

// Shape implements Shaper.
func (MapToFields) Shape(in Shape, config *yaml.Node, computed ExprTypes) Shape {
	out := Shape{Fields: map[string]*cel.Type{}}
	if document.TextAt(config, "append") == "true" {
		out = in
		for n := range document.Scalars(document.Lookup(config, "drop")) {
			out = out.without(n.Value)
		}
	}
	for name, n := range document.Entries(config, "fields") {
		t := computed[n]
		if t == nil {
			t = cel.DynType // it could not be read, which was reported
		}
		out = out.with(name.Value, t)
	}
	if len(out.Fields) == 0 && out.Rest == nil {
		return anyRow // no such rows are meant, which was reported
	}
	return out
}
