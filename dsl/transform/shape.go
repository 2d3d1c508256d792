package transform

import (
	"maps"
	"slices"

	"github.com/google/cel-go/cel"
	"go.yaml.in/yaml/v3"
)

// ExprTypes are the types of a transform's expressions, by where they stand.
type ExprTypes map[*yaml.Node]*cel.Type

// Shaper is the config of a transform that hands on rows of another shape than those that reach it; nothing is known of those that come
// from files. What only drops or rejects rows keeps their shape.
type Shaper interface {
	// Shape is that of the rows that it hands on. computed are the types of its expressions.
	Shape(in Shape, config *yaml.Node, computed ExprTypes) Shape
}

// Shape is what is known of the rows at one place of a cleaning, before any was read.
type Shape struct {
	// Fields that are known, each with its type; nil of one that no row has.
	Fields map[string]*cel.Type
	// Rest is the type of all other fields; nil when there are none.
	Rest *cel.Type
	// Languages are those that a DetectLanguage has kept, nil when none has.
	Languages []string
}

// anyRow is the shape of rows of which nothing is known.
var anyRow = Shape{Rest: cel.DynType}

// with returns the shape with a field of that type.
func (r Shape) with(name string, t *cel.Type) Shape {
	r.Fields = maps.Clone(r.Fields)
	if r.Fields == nil {
		r.Fields = map[string]*cel.Type{}
	}
	r.Fields[name] = t
	return r
}

// without returns the shape without a field.
func (r Shape) without(name string) Shape {
	if r.Rest != nil {
		return r.with(name, nil)
	}
	r.Fields = maps.Clone(r.Fields)
	delete(r.Fields, name)
	return r
}

// typeOf returns the type of a field, or nil when there is none.
func (r Shape) typeOf(name string) *cel.Type {
	if t, ok := r.Fields[name]; ok {
		return t
	}
	return r.Rest
}

// Names are those of the fields that are known, sorted.
func (r Shape) Names() []string {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(r.Fields)), func(name string) bool { return r.Fields[name] == nil })
}

// rejectedShape is that of the rows in an output of error_handling.
var rejectedShape = Shape{Fields: map[string]*cel.Type{
	"element": cel.DynType, "reason": cel.StringType, "message": cel.StringType, "source": cel.StringType, "offset": cel.IntType,
}}

// joinShapes is the shape of rows of all these shapes together. A field that only some have may be read: a row without is rejected.
func joinShapes(shapes []Shape) Shape {
	if len(shapes) == 0 {
		return anyRow
	}
	out := shapes[0]
	for _, other := range shapes[1:] {
		both := Shape{Fields: map[string]*cel.Type{}, Rest: joinTypes(out.Rest, other.Rest)}
		if out.Languages != nil && other.Languages != nil {
			both.Languages = slices.Compact(slices.Sorted(slices.Values(slices.Concat(out.Languages, other.Languages))))
		}
		for _, r := range []Shape{out, other} {
			for name := range r.Fields {
				both.Fields[name] = joinTypes(out.typeOf(name), other.typeOf(name))
			}
		}
		out = both
	}
	return out
}

// joinTypes is the type of what has one type or the other; nil stands for nothing.
func joinTypes(a, b *cel.Type) *cel.Type {
	switch {
	case a == nil && b == nil:
		return nil
	case a == nil || b == nil || !a.IsExactType(b):
		return cel.DynType
	}
	return a
}
