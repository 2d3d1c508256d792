package dsl

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/google/cel-go/cel"
	"go.yaml.in/yaml/v3"

	"github.com/sluiceml/sluice/dsl/decode"
	"github.com/sluiceml/sluice/dsl/document"
	"github.com/sluiceml/sluice/dsl/expr"
	"github.com/sluiceml/sluice/dsl/spec"
)

// maxInstances bounds the instances of one step.
const maxInstances = 100_000

// matrix is a step's matrix as it was read.
type matrix struct {
	node             *yaml.Node
	axes             expr.Mapping // each a list, or an expression of one
	include, exclude []mapping
	// fixed are the combinations of a matrix without expressions; nil when there are expressions, or too many combinations to try.
	fixed []combination
}

// mapping is one entry of include or exclude.
type mapping struct {
	node    *yaml.Node
	entries expr.Mapping
}

func (m *matrix) known() any {
	if m == nil {
		return nil
	}
	return expr.Known(m.axes)
}

// readMatrix reads axes, include and exclude; nil after it has reported why it cannot.
func readMatrix(d *decode.Decoder, n *yaml.Node) *matrix {
	if n.Kind != yaml.MappingNode {
		d.Source.Errorf(n, "type", matrixHint(n), "a matrix is a mapping of lists, not %s", document.NodeKind(n))
		return nil
	}
	m := &matrix{node: n}
	first := len(d.Expressions)
	d.EachKey(n, func(key, val *yaml.Node) {
		switch key.Value {
		case "include":
			m.include = readMappings(d, val)
			return
		case "exclude":
			m.exclude = readMappings(d, val)
			return
		}
		if !d.CheckName(key) {
			return
		}
		if axis := readAxis(d, val); axis != nil {
			m.axes.Add(key.Value, axis)
		}
	})
	for _, e := range d.Expressions[first:] {
		e.Scope = expr.ScopeOnce
	}
	if len(n.Content) == 0 || len(n.Content) == 2 && n.Content[0].Value == "exclude" {
		d.Source.Errorf(n, "matrix", "write {axis: [value, value]}", "the matrix has no axes")
	}
	return m
}

// matrixHint says how a matrix is written that is no mapping.
func matrixHint(n *yaml.Node) string {
	if first := document.Lookup(n, 0); first != nil && first.Kind == yaml.MappingNode {
		return "write them under `include`: {include: [{axis: value}]}"
	}
	return "write {axis: [value, value]}"
}

// readAxis reads a list of values, or ${} of one.
func readAxis(d *decode.Decoder, n *yaml.Node) expr.Value {
	n, leave, ok := d.Enter(n)
	if !ok {
		return nil
	}
	defer leave()
	switch {
	case n.Kind == yaml.ScalarNode && strings.Contains(n.Value, "${"):
		return d.Interpolate(n, expr.Expected{Type: anyList})
	case n.Kind != yaml.SequenceNode:
		hint := "write [a, b], or ${} of a list"
		if n.Kind == yaml.ScalarNode && n.Tag != "!!null" {
			hint = "write [" + n.Value + "], or ${} of a list"
		}
		d.Source.Errorf(n, "type", hint, "an axis is a list of values, not %s", document.NodeKind(n))
		return nil
	case len(n.Content) == 0:
		d.Source.Errorf(n, "matrix", "write [a, b]", "an axis without values leaves nothing to run")
		return nil
	}
	out := expr.List{}
	seen := map[string]bool{}
	for _, item := range n.Content {
		v := d.Data(item)
		if v == nil {
			continue
		}
		if raw, err := spec.Encode(expr.Known(v)); err == nil && expr.IsKnown(v) {
			if seen[string(raw)] {
				d.Source.Errorf(item, "duplicate", "remove one of them", "the value is listed twice")
			}
			seen[string(raw)] = true
		}
		out = append(out, v)
	}
	return out
}

// anyList is what a place takes that takes every list.
var anyList = reflect.TypeFor[[]any]()

// readMappings reads what stands under include or exclude.
func readMappings(d *decode.Decoder, n *yaml.Node) []mapping {
	n, leave, ok := d.Enter(n)
	if !ok {
		return nil
	}
	defer leave()
	if n.Kind != yaml.SequenceNode {
		d.Source.Errorf(n, "type", "write [{axis: value}]", "expected a list of mappings, not %s", document.NodeKind(n))
		return nil
	}
	var out []mapping
	for _, item := range n.Content {
		if item = document.Unalias(item); item.Kind != yaml.MappingNode {
			d.Source.Errorf(item, "type", "write {axis: value}", "expected a mapping, not %s", document.NodeKind(item))
			continue
		}
		m := mapping{node: item}
		d.EachKey(item, func(key, val *yaml.Node) {
			if !d.CheckName(key) {
				return
			}
			if v := d.Data(val); v != nil {
				m.entries.Add(key.Value, v)
			}
		})
		out = append(out, m)
	}
	return out
}

// combination is one instance of a matrix: values by axis, as JSON, so that 1 and 1.0 are the same.
type combination map[string]json.RawMessage

// combinations lists the instances: the product of the axes, the first axis slowest, less what exclude names, with what include adds.
func (m *matrix) combinations(names cel.Activation) ([]combination, error) {
	all, err := m.product(names)
	if err != nil {
		return nil, err
	}
	for _, entry := range m.exclude {
		out, err := resolveMapping(entry, names)
		if err != nil {
			return nil, err
		}
		all = slices.DeleteFunc(all, func(c combination) bool { return c.has(out) })
	}
	return m.included(all, names)
}

// product combines every value of each axis with every one of the others.
func (m *matrix) product(names cel.Activation) ([]combination, error) {
	if len(m.axes.Keys) == 0 {
		return nil, nil
	}
	all := []combination{{}}
	for i, axis := range m.axes.Keys {
		v, err := m.axes.Values[i].Resolve(names)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", axis, err)
		}
		items, ok := v.([]any)
		if !ok {
			return nil, fmt.Errorf("%s is not a list", axis)
		}
		if len(all)*len(items) > maxInstances {
			return nil, errTooMany
		}
		next := make([]combination, 0, len(all)*len(items))
		raws := make([]json.RawMessage, len(items))
		for i, item := range items {
			if raws[i], err = spec.Encode(item); err != nil {
				return nil, err
			}
		}
		for _, c := range all {
			for _, raw := range raws {
				with := maps.Clone(c)
				with[axis] = raw
				next = append(next, with)
			}
		}
		all = next
	}
	return all, nil
}

var errTooMany = errors.New("there are more than 100,000 instances")

// included adds what include says: its keys go to every combination of the axes that they do not contradict; an entry that found none
// is a combination of its own.
func (m *matrix) included(all []combination, names cel.Activation) ([]combination, error) {
	product := len(all)
	for _, entry := range m.include {
		added, err := resolveMapping(entry, names)
		if err != nil {
			return nil, err
		}
		onAxes := combination{}
		for _, axis := range m.axes.Keys {
			if v, ok := added[axis]; ok {
				onAxes[axis] = v
			}
		}
		found := false
		for _, c := range all[:product] {
			if c.has(onAxes) {
				found = true
				maps.Copy(c, added)
			}
		}
		if !found {
			all = append(all, added)
		}
		if len(all) > maxInstances {
			return nil, errTooMany
		}
	}
	return all, nil
}

// has reports whether the combination has all values of another.
func (c combination) has(other combination) bool {
	for axis, v := range other {
		if !bytes.Equal(c[axis], v) {
			return false
		}
	}
	return true
}

func resolveMapping(m mapping, names cel.Activation) (combination, error) {
	out := make(combination, len(m.entries.Keys))
	for i, key := range m.entries.Keys {
		v, err := m.entries.Values[i].Resolve(names)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", key, err)
		}
		if out[key], err = spec.Encode(v); err != nil {
			return nil, err
		}
	}
	return out, nil
}
