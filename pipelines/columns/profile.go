package columns

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/sluiceml/sluice/dsl/spec"
)

// Profile describes rows: how many there are, in which parts, and what their columns contain.
type Profile struct {
	Rows    int64              `json:"rows"`
	Splits  map[string]int64   `json:"splits"`
	Columns map[string]*Column `json:"columns"`
}

// MaxColumns bounds the number of columns of a dataset.
const MaxColumns = 10_000

// NewProfile returns an empty profile with the given parts.
func NewProfile(parts ...string) *Profile {
	p := &Profile{Splits: map[string]int64{}, Columns: map[string]*Column{}}
	for _, part := range parts {
		p.Splits[part] = 0
	}
	return p
}

// ParseProfile decodes a profile.
func ParseProfile(text []byte) (*Profile, error) {
	p := NewProfile()
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

// Add adds one row of a part. Values are those of package value. computed has the computed columns,
// which may replace fields of the same name in the profile.
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

// Merge adds the profile of other rows.
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

// Nulls returns in how many rows a column is null or missing.
func (p *Profile) Nulls(c *Column) int64 { return p.Rows - c.number(false) }

// Schema returns a JSON Schema that the rows match: the fields with their types; a field is required if every row has it.
func (p *Profile) Schema() map[string]any {
	properties := map[string]any{}
	required := []string{}
	for name, c := range p.Columns {
		if c.Computed {
			continue
		}
		properties[name] = map[string]any{"type": c.jsonTypes()}
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

// jsonTypes returns the types that the values have as JSON, sorted.
func (c *Column) jsonTypes() []string {
	types := map[string]bool{}
	for typ := range c.Types {
		switch typ {
		case "null", "boolean", "integer", "number", "string", "array", "object":
			types[typ] = true
		default:
			types["string"] = true
		}
	}
	return slices.Sorted(maps.Keys(types))
}

// Summary returns the profile as expressions see it.
func (p *Profile) Summary() spec.Profile {
	out := spec.Profile{Columns: make(map[string]spec.ColumnProfile, len(p.Columns))}
	for name, c := range p.Columns {
		s := c.summary()
		s.Nulls = p.Nulls(c)
		s.Distinct = min(s.Distinct, c.number(false)) // the estimate may exceed the number of values
		out.Columns[name] = s
	}
	return out
}
