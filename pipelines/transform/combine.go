package transform

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/sluiceml/sluice/dsl/expr"
	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/dsl/transform"
	"github.com/sluiceml/sluice/internal/fault"
	"github.com/sluiceml/sluice/pipelines/rows"
	"github.com/sluiceml/sluice/pipelines/spill"
)

// Combiner is a compiled Combine. It spills only what it needs of a row: {"by": [values of the fields], "of": [values to combine]}.
type Combiner struct {
	Name   string
	by     []string
	fields []combined
}

// combined is a field that is computed from several rows.
type combined struct {
	name  string
	value *expr.RowProgram // nil: a count of rows
	fn    string
}

func compileCombine(t spec.Transform, params map[string]any) (End, error) {
	c, err := rows.DecodeConfig[transform.Combine](t)
	if err != nil {
		return nil, err
	}
	if len(c.Combine) == 0 {
		return nil, fmt.Errorf("combine: name a field to compute")
	}
	d := &Combiner{Name: t.Name, by: c.GroupBy}
	for _, name := range slices.Sorted(maps.Keys(c.Combine)) {
		f := combined{name: name, fn: c.Combine[name].Fn}
		switch {
		case slices.Contains(c.GroupBy, name):
			return nil, fmt.Errorf("combine: the rows already have the field %s, from group_by", name)
		case Aggregates[f.fn] == nil:
			return nil, fmt.Errorf("combine: %s: unknown function %q", name, f.fn)
		case c.Combine[name].Value != "":
			if f.value, err = expr.CompileRow(c.Combine[name].Value, params); err != nil {
				return nil, fmt.Errorf("combine: %s: %w", name, err)
			}
		case f.fn != "count":
			return nil, fmt.Errorf("combine: %s: %s needs a value", name, f.fn)
		}
		d.fields = append(d.fields, f)
	}
	return d, nil
}

// Take implements End. Rows that are merged into one are in the same group.
func (c *Combiner) Take(to []byte, r rows.Row) (text []byte, group string, m spill.Mark, err error) {
	by, of := make([]any, len(c.by)), make([]any, len(c.fields))
	for i, name := range c.by {
		var ok bool
		if by[i], ok = r[name]; !ok {
			return nil, "", m, rows.Reject("missing_field", "the row has no field %s", name)
		}
	}
	for i, f := range c.fields {
		if f.value == nil {
			continue
		}
		if of[i], err = f.value.Eval(r); err != nil {
			return nil, "", m, rows.RejectEval(f.name, err)
		}
		if err := Aggregates[f.fn]().Check(of[i]); err != nil {
			return nil, "", m, rows.Reject("expression", "%s: %v", f.name, err)
		}
	}
	if m.Key, err = rows.KeyOf(by); err != nil {
		return nil, "", m, err
	}
	if text, err = rows.Pack(to, rows.Row{"by": by, "of": of}); err != nil {
		return nil, "", m, err
	}
	m.Tie = rows.DigestOf(text)
	return text, strconv.Itoa(m.Key.Bucket(CutGroups)), m, nil
}

// Combined is a row that is made from several. Its origin is the first of theirs, by file name and offset.
type Combined struct {
	// Rows is the number of rows it is made from.
	Rows  int64
	of    *Combiner
	first rows.Origin
	made  rows.Row
	all   []Aggregate
}

// Begin returns an empty Combined.
func (c *Combiner) Begin() *Combined {
	d := &Combined{of: c, made: rows.Row{}, all: make([]Aggregate, len(c.fields))}
	for i, f := range c.fields {
		d.all[i] = Aggregates[f.fn]()
	}
	return d
}

// Add adds a row as Take has spilled it.
func (d *Combined) Add(from rows.Origin, text []byte) error {
	r, _, err := rows.Unpack(text)
	if err != nil {
		return err
	}
	by, of := r["by"].([]any), r["of"].([]any)
	for i, v := range of {
		if v != nil || d.of.fields[i].value == nil {
			d.all[i].Add(v)
		}
	}
	if d.Rows == 0 {
		for i, name := range d.of.by {
			d.made[name] = by[i]
		}
	}
	if d.Rows == 0 || cmp.Or(strings.Compare(from.Name, d.first.Name), cmp.Compare(from.Offset, d.first.Offset)) < 0 {
		d.first = from
	}
	d.Rows++
	return nil
}

// Row returns the combined row and its origin.
func (d *Combined) Row() (first rows.Origin, text []byte, err error) {
	for i, f := range d.of.fields {
		if d.made[f.name], err = d.all[i].Value(); err != nil {
			return first, nil, fault.Errorf(fault.User, "transform %s: %s: %w", d.of.Name, f.name, err)
		}
	}
	text, err = rows.Pack(nil, d.made)
	return d.first, text, err
}
