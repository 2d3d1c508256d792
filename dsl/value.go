package dsl

import (
	"fmt"
	"strings"

	"github.com/google/cel-go/cel"
)

// value is a value of the document as it was checked: what is literal is ready, what holds ${} is evaluated when a step is resolved.
type value interface {
	// resolve returns plain data for encoding/json.
	resolve(names cel.Activation) (any, error)
}

// literal is a value without expressions.
type literal struct{ v any }

func (l literal) resolve(cel.Activation) (any, error) { return l.v, nil }

// hole is "${expr}" as a whole value: it keeps the expression's type.
type hole struct{ expr *expression }

func (h hole) resolve(names cel.Activation) (any, error) {
	v, err := h.expr.eval(names)
	if err != nil {
		return nil, err
	}
	out, err := h.expr.want.convert(v)
	if err != nil {
		return nil, fmt.Errorf("`%s`: %w", h.expr.text, err)
	}
	return out, nil
}

// text is "a${expr}b": it becomes a string.
type text []textPart

type textPart struct {
	literal string
	expr    *expression // nil in a literal part
}

func (t text) resolve(names cel.Activation) (any, error) {
	var b strings.Builder
	for _, p := range t {
		if p.expr == nil {
			b.WriteString(p.literal)
			continue
		}
		v, err := p.expr.eval(names)
		if err != nil {
			return nil, err
		}
		s, err := textOf(v)
		if err != nil {
			return nil, fmt.Errorf("`%s`: %w", p.expr.text, err)
		}
		b.WriteString(s)
	}
	return b.String(), nil
}

// list is a sequence.
type list []value

func (l list) resolve(names cel.Activation) (any, error) {
	out := make([]any, len(l))
	for i, item := range l {
		v, err := item.resolve(names)
		if err != nil {
			return nil, err
		}
		out[i] = v
	}
	return out, nil
}

// entries is a mapping, in the document's order.
type entries struct {
	keys   []string
	values []value
}

func (m entries) resolve(names cel.Activation) (any, error) {
	out := make(map[string]any, len(m.keys))
	for i, key := range m.keys {
		v, err := m.values[i].resolve(names)
		if err != nil {
			return nil, err
		}
		out[key] = v
	}
	return out, nil
}

// entry is a mapping of one key.
func entry(key string, v value) entries { return entries{keys: []string{key}, values: []value{v}} }

// add puts a key behind the others.
func (m *entries) add(key string, v value) {
	m.keys, m.values = append(m.keys, key), append(m.values, v)
}

// get is the value of a key, or nil.
func (m entries) get(key string) value {
	for i, k := range m.keys {
		if k == key {
			return m.values[i]
		}
	}
	return nil
}

// known returns the literal part of a value: what holds ${} is left out.
func known(v value) any {
	switch v := v.(type) {
	case literal:
		return v.v
	case list:
		out := make([]any, len(v))
		for i, item := range v {
			out[i] = known(item)
		}
		return out
	case entries:
		out := make(map[string]any, len(v.keys))
		for i, key := range v.keys {
			if k := known(v.values[i]); k != nil {
				out[key] = k
			}
		}
		return out
	}
	return nil
}
