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
	Node             *yaml.Node
	Axes             expr.Mapping // each a list, or an expression of one
	Include, Exclude []matrixEntry
	// Fixed are the combinations of a matrix without expressions; nil when there are expressions, or too many combinations to try.
	Fixed []combination
}

// matrixEntry is one entry of include or exclude.
type matrixEntry struct {
	Node    *yaml.Node
	Entries expr.Mapping
}

// Known are the axes without what expressions give: an axis that one gives is nil.
func (m *matrix) Known() any {
	if m == nil {
		return nil
	}
	axes := make(map[string]any, len(m.Axes.Keys))
	for i, axis := range m.Axes.Keys {
		axes[axis] = expr.Known(m.Axes.Values[i])
	}
	return axes
}

// readMatrix reads axes, include and exclude; nil after it has reported why it cannot.
func readMatrix(d *decode.Decoder, n *yaml.Node) *matrix {
	if n.Kind != yaml.MappingNode {
		d.Source.Errorf(n, "type", matrixHint(n), "a matrix is a mapping of lists, not %s", document.NodeKind(n))
		return nil
	}
	m := &matrix{Node: n}
	first := len(d.Expressions)
	d.EachKey(n, func(key, val *yaml.Node) {
		switch key.Value {
		case "include":
			m.Include = readMappings(d, val)
			return
		case "exclude":
			m.Exclude = readMappings(d, val)
			return
		}
		if !d.CheckName(key) {
			return
		}
		if axis := readAxis(d, val); axis != nil {
			m.Axes.Add(key.Value, axis)
		}
	})
	for _, e := range d.Expressions[first:] {
		e.Scope = expr.ScopeOnce
	}
	d.Source.Judge(func() {
		if len(n.Content) == 0 || len(n.Content) == 2 && n.Content[0].Value == "exclude" {
			d.Source.Errorf(n, "matrix", "write {axis: [value, value]}", "the matrix has no axes")
		}
	})
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
func readMappings(d *decode.Decoder, n *yaml.Node) []matrixEntry {
	n, leave, ok := d.Enter(n)
	if !ok {
		return nil
	}
	defer leave()
	if n.Kind != yaml.SequenceNode {
		d.Source.Errorf(n, "type", "write [{axis: value}]", "expected a list of mappings, not %s", document.NodeKind(n))
		return nil
	}
	var out []matrixEntry
	for _, item := range n.Content {
		if item = document.Unalias(item); item.Kind != yaml.MappingNode {
			d.Source.Errorf(item, "type", "write {axis: value}", "expected a mapping, not %s", document.NodeKind(item))
			continue
		}
		m := matrixEntry{Node: item}
		d.EachKey(item, func(key, val *yaml.Node) {
			if !d.CheckName(key) {
				return
			}
			if v := d.Data(val); v != nil {
				m.Entries.Add(key.Value, v)
			}
		})
		out = append(out, m)
	}
	return out
}

// combination is one instance of a matrix: values by axis, as JSON, so that 1 and 1.0 are the same.
type combination map[string]json.RawMessage

// Combinations lists the instances: the product of the axes, the first axis slowest, less what exclude names, with what include adds.
func (m *matrix) Combinations(names cel.Activation) ([]combination, error) {
	all, err := m.product(names)
	if err != nil {
		return nil, err
	}
	for _, entry := range m.Exclude {
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
	if len(m.Axes.Keys) == 0 {
		return nil, nil
	}
	all := []combination{{}}
	for i, axis := range m.Axes.Keys {
		v, err := m.Axes.Values[i].Resolve(names)
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

// errTooMany is that there are more combinations than may be.
var errTooMany = errors.New("there are more than 100,000 instances")

// included adds what include says: its keys go to every combination of the axes that they do not contradict; an entry that found none
// is a combination of its own.
func (m *matrix) included(all []combination, names cel.Activation) ([]combination, error) {
	product := len(all)
	for _, entry := range m.Include {
		added, err := resolveMapping(entry, names)
		if err != nil {
			return nil, err
		}
		onAxes := combination{}
		for _, axis := range m.Axes.Keys {
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

func resolveMapping(m matrixEntry, names cel.Activation) (combination, error) {
	out := make(combination, len(m.Entries.Keys))
	for i, key := range m.Entries.Keys {
		v, err := m.Entries.Values[i].Resolve(names)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", key, err)
		}
		if out[key], err = spec.Encode(v); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// Optional are the keys that a combination may lack: exactly, where the combinations are known.
func (m *matrix) Optional() map[string]bool {
	optional := map[string]bool{}
	for _, c := range m.Fixed {
		for key := range c {
			optional[key] = false
		}
	}
	if len(m.Fixed) > 0 {
		for _, c := range m.Fixed {
			for key := range optional {
				optional[key] = optional[key] || c[key] == nil
			}
		}
		return optional
	}
	for _, entry := range m.Include {
		onAxis := slices.ContainsFunc(m.Axes.Keys, func(axis string) bool { return slices.Contains(entry.Entries.Keys, axis) })
		for _, key := range entry.Entries.Keys {
			optional[key] = optional[key] || !slices.Contains(m.Axes.Keys, key)
		}
		for _, axis := range m.Axes.Keys {
			optional[axis] = optional[axis] || onAxis && !slices.Contains(entry.Entries.Keys, axis)
		}
	}
	return optional
}

// IsKnown reports whether the matrix holds no expression.
func (m *matrix) IsKnown() bool {
	isOpen := func(e matrixEntry) bool { return !expr.IsKnown(e.Entries) }
	return expr.IsKnown(m.Axes) && !slices.ContainsFunc(m.Include, isOpen) && !slices.ContainsFunc(m.Exclude, isOpen)
}

// MayHave reports whether an axis may have the value that an entry has for it.
func (m *matrix) MayHave(entry matrixEntry, key string) bool {
	axis, isList := m.Axes.Get(key).(expr.List)
	value := entry.Entries.Get(key)
	if !isList || !expr.IsKnown(axis) || value == nil || !expr.IsKnown(value) {
		return true
	}
	wanted, err := spec.Encode(expr.Known(value))
	return err != nil || slices.ContainsFunc(axis, func(v expr.Value) bool {
		raw, err := spec.Encode(expr.Known(v))
		return err != nil || bytes.Equal(raw, wanted)
	})
}
