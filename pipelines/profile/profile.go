// Package profile describes datasets and compares them: what their columns hold, and how far it has moved from an earlier version.
//
// A profile depends on the rows alone: all it keeps can be added up in any order and in any parts. It is bounded by the number of
// columns, not of rows.
package profile

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/sluiceml/sluice/dsl/spec"
)

// Profile describes rows: how many, in which parts, and what their columns hold.
type Profile struct {
	Rows    int64              `json:"rows"`
	Splits  map[string]int64   `json:"splits"`
	Columns map[string]*Column `json:"columns"`
}

// MaxColumns bounds how many columns a dataset may have.
const MaxColumns = 10_000

// New returns the profile of no rows, of these parts.
func New(parts ...string) *Profile {
	p := &Profile{Splits: map[string]int64{}, Columns: map[string]*Column{}}
	for _, part := range parts {
		p.Splits[part] = 0
	}
	return p
}

// Parse reads a profile.
func Parse(text []byte) (*Profile, error) {
	p := New()
	if err := json.Unmarshal(text, p); err != nil {
		return nil, fmt.Errorf("read a profile: %w", err)
	}
	for name, c := range p.Columns {
		if c == nil {
			return nil, fmt.Errorf("read a profile: the column %q is null", name)
		}
	}
	return p, nil
}

// Add takes in one row of a part. Its values are those of a row: nil, bool, int64, float64, string, []any and map[string]any; computed
// are those of columns that are no fields of it, or stand for a field in the profile.
func (p *Profile) Add(part string, row, computed map[string]any) error {
	p.Rows++
	p.Splits[part]++
	for name, v := range row {
		if _, replaced := computed[name]; replaced {
			continue
		}
		if err := p.add(name, v, false); err != nil {
			return err
		}
	}
	for name, v := range computed {
		if err := p.add(name, v, true); err != nil {
			return err
		}
	}
	return nil
}

func (p *Profile) add(name string, v any, computed bool) error {
	c := p.Columns[name]
	if c == nil {
		if len(p.Columns) == MaxColumns {
			return fmt.Errorf("the rows have more than %d different fields; put varying keys into a list", MaxColumns)
		}
		c = &Column{}
		p.Columns[name] = c
	}
	c.Computed = c.Computed || computed
	return c.add(v)
}

// Merge adds other, whose rows are not among those of p.
func (p *Profile) Merge(other *Profile) {
	p.Rows += other.Rows
	for part, n := range other.Splits {
		p.Splits[part] += n
	}
	for name, c := range other.Columns {
		if p.Columns[name] == nil {
			p.Columns[name] = &Column{}
		}
		p.Columns[name].merge(c)
	}
}

// Nulls is in how many rows a column is null or absent.
func (p *Profile) Nulls(c *Column) int64 { return p.Rows - c.number(false) }

// Schema returns a JSON Schema that the rows meet: the fields with the types seen, required where every row has them.
func (p *Profile) Schema() map[string]any {
	properties := map[string]any{}
	required := []string{}
	for name, c := range p.Columns {
		if c.Computed {
			continue
		}
		properties[name] = map[string]any{"type": slices.Sorted(maps.Keys(c.Types))}
		if c.number(true) == p.Rows {
			required = append(required, name)
		}
	}
	slices.Sort(required)
	return map[string]any{
		"$schema": "https://json-schema.org/draft/2020-12/schema", "type": "object",
		"properties": properties, "required": required,
	}
}

// Summary is the profile as expressions see it.
func (p *Profile) Summary() spec.Profile {
	out := spec.Profile{Columns: make(map[string]spec.ColumnProfile, len(p.Columns))}
	for name, c := range p.Columns {
		s := c.summary()
		s.Nulls = p.Nulls(c)
		s.Distinct = min(s.Distinct, c.number(false)) // an estimate may be above what there is
		out.Columns[name] = s
	}
	return out
}
