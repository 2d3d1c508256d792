package expr

import (
	"fmt"
	"strings"

	"github.com/google/cel-go/cel"
)

// Value is a value of the document as it was checked: what is literal is ready, what holds ${} is evaluated when a step is resolved.
type Value interface {
	// Resolve returns plain data for encoding/json.
	Resolve(names cel.Activation) (any, error)
}

// Literal is a value without expressions.
type Literal struct{ Value any }

// Resolve implements Value.
func (l Literal) Resolve(cel.Activation) (any, error) { return l.Value, nil }

// Computed is "${expr}" as a whole value: it keeps the expression's type.
type Computed struct{ Expr *Expression }

// Resolve implements Value.
func (h Computed) Resolve(names cel.Activation) (any, error) {
	v, err := h.Expr.Eval(names)
	if err != nil {
		return nil, err
	}
	out, err := h.Expr.Expected.convert(v)
	if err != nil {
		return nil, fmt.Errorf("`%s`: %w", h.Expr.Text, err)
	}
	return out, nil
}

// Template is "a${expr}b": it becomes a string.
type Template []TemplatePart

// TemplatePart is a piece of a template: text as it is, or an expression.
type TemplatePart struct {
	Literal string
	Expr    *Expression // nil in a literal part
}

// Resolve implements Value.
func (t Template) Resolve(names cel.Activation) (any, error) {
	var b strings.Builder
	for _, p := range t {
		if p.Expr == nil {
			b.WriteString(p.Literal)
			continue
		}
		v, err := p.Expr.Eval(names)
		if err != nil {
			return nil, err
		}
		s, err := textOf(v)
		if err != nil {
			return nil, fmt.Errorf("`%s`: %w", p.Expr.Text, err)
		}
		b.WriteString(s)
	}
	return b.String(), nil
}

// List is a sequence.
type List []Value

// Resolve implements Value.
func (l List) Resolve(names cel.Activation) (any, error) {
	out := make([]any, len(l))
	for i, item := range l {
		v, err := item.Resolve(names)
		if err != nil {
			return nil, err
		}
		out[i] = v
	}
	return out, nil
}

// Mapping is a mapping, in the document's order.
type Mapping struct {
	Keys   []string
	Values []Value
}

// Resolve implements Value.
func (m Mapping) Resolve(names cel.Activation) (any, error) {
	out := make(map[string]any, len(m.Keys))
	for i, key := range m.Keys {
		v, err := m.Values[i].Resolve(names)
		if err != nil {
			return nil, err
		}
		out[key] = v
	}
	return out, nil
}

// MappingOf is a mapping of one key.
func MappingOf(key string, v Value) Mapping { return Mapping{Keys: []string{key}, Values: []Value{v}} }

// Add puts a key behind the others.
func (m *Mapping) Add(key string, v Value) {
	m.Keys, m.Values = append(m.Keys, key), append(m.Values, v)
}

// Get is the value of a key, or nil.
func (m Mapping) Get(key string) Value {
	for i, k := range m.Keys {
		if k == key {
			return m.Values[i]
		}
	}
	return nil
}

// Under is the mapping under a key of another; empty where there is none.
func Under(v Value, key string) Mapping {
	outer, _ := v.(Mapping)
	inner, _ := outer.Get(key).(Mapping)
	return inner
}

// MarkSecrets gives the expressions that isSecret names the one place for secret parameters, with the name of a secret as their value. A pipeline
// hands that on to its child: it is no secret itself.
func (m Mapping) MarkSecrets(isSecret func(key string, e *Expression) bool) {
	for i, key := range m.Keys {
		if v, ok := m.Values[i].(Computed); ok && isSecret(key, v.Expr) {
			v.Expr.Scope = ScopeSecret
		}
	}
}

// Known returns the literal part of a value: what holds ${} is left out.
func Known(v Value) any {
	switch v := v.(type) {
	case Literal:
		return v.Value
	case List:
		out := make([]any, len(v))
		for i, item := range v {
			out[i] = Known(item)
		}
		return out
	case Mapping:
		out := make(map[string]any, len(v.Keys))
		for i, key := range v.Keys {
			if k := Known(v.Values[i]); k != nil {
				out[key] = k
			}
		}
		return out
	}
	return nil
}

// IsKnown reports whether a value holds no expression.
func IsKnown(v Value) bool { return len(Inside(v)) == 0 }

// Inside lists the expressions of a value.
func Inside(v Value) (all []*Expression) {
	switch v := v.(type) {
	case Computed:
		return []*Expression{v.Expr}
	case Template:
		for _, p := range v {
			if p.Expr != nil {
				all = append(all, p.Expr)
			}
		}
	case List:
		for _, item := range v {
			all = append(all, Inside(item)...)
		}
	case Mapping:
		for _, item := range v.Values {
			all = append(all, Inside(item)...)
		}
	}
	return all
}
