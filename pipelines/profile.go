package pipelines

import (
	"bytes"
	"encoding/json"
	"path"
	"slices"
	"unicode/utf8"
)

// profile describes rows: how many, in which parts, and what their columns hold. It is what profile.json has.
type profile struct {
	Rows    int64              `json:"rows"`
	Splits  map[string]int64   `json:"splits"`
	Columns map[string]*column `json:"columns"`
}

// column describes the values of one field.
type column struct {
	// Types counts values by JSON type: null, boolean, integer, number, string, array, object.
	Types map[string]int64 `json:"types"`
	// True counts the values that are true.
	True int64 `json:"true,omitempty"`
	// Length describes the texts, in characters; absent when there is none.
	Length *lengths `json:"length,omitempty"`
}

// lengths are of the texts of a column. Sum makes means exact and mergeable.
type lengths struct {
	Min  int64   `json:"min"`
	Mean float64 `json:"mean"`
	Max  int64   `json:"max"`
	Sum  int64   `json:"sum"`
}

// maxColumns bounds how many columns a dataset may have.
const maxColumns = 10_000

// newProfile returns the profile of a shard without rows yet.
func newProfile(shard string) *profile {
	return &profile{Splits: map[string]int64{path.Dir(shard): 0}, Columns: map[string]*column{}}
}

// add takes in one row of the shard.
func (p *profile) add(text []byte) error {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	var r map[string]any
	if err := d.Decode(&r); err != nil {
		return err
	}
	p.Rows++
	for part := range p.Splits {
		p.Splits[part]++
	}
	for name, v := range r {
		c := p.Columns[name]
		if c == nil {
			if len(p.Columns) == maxColumns {
				return fault(TypeUser, "the rows have more than %d different fields; put keys that vary into a list", maxColumns)
			}
			c = &column{Types: map[string]int64{}}
			p.Columns[name] = c
		}
		c.add(v)
	}
	return nil
}

func (c *column) add(v any) {
	switch v := v.(type) {
	case nil:
		c.Types["null"]++
	case bool:
		c.Types["boolean"]++
		if v {
			c.True++
		}
	case json.Number:
		if _, err := v.Int64(); err == nil {
			c.Types["integer"]++
		} else {
			c.Types["number"]++
		}
	case string:
		c.Types["string"]++
		n := int64(utf8.RuneCountInString(v))
		c.addLengths(&lengths{Min: n, Max: n, Sum: n})
	case []any:
		c.Types["array"]++
	default:
		c.Types["object"]++
	}
}

// addLengths takes in the lengths of texts that Types counts already.
func (c *column) addLengths(l *lengths) {
	if c.Length == nil {
		c.Length = &lengths{Min: l.Min}
	}
	c.Length.Min = min(c.Length.Min, l.Min)
	c.Length.Max = max(c.Length.Max, l.Max)
	c.Length.Sum += l.Sum
	c.Length.Mean = float64(c.Length.Sum) / float64(c.Types["string"])
}

// mergeProfiles adds profiles up. The order does not matter: all sums are of whole numbers.
func mergeProfiles(all []*profile) *profile {
	merged := &profile{Splits: map[string]int64{}, Columns: map[string]*column{}}
	for _, p := range all {
		merged.Rows += p.Rows
		for part, n := range p.Splits {
			merged.Splits[part] += n
		}
		for name, c := range p.Columns {
			m := merged.Columns[name]
			if m == nil {
				m = &column{Types: map[string]int64{}}
				merged.Columns[name] = m
			}
			for typ, n := range c.Types {
				m.Types[typ] += n
			}
			m.True += c.True
			if c.Length != nil {
				m.addLengths(c.Length)
			}
		}
	}
	return merged
}

// schema returns a JSON Schema that the rows meet: the columns with the types seen, required where every row has them.
func (p *profile) schema() map[string]any {
	properties := map[string]any{}
	required := []string{}
	for name, c := range p.Columns {
		count := int64(0)
		types := []string{}
		for typ, n := range c.Types {
			types = append(types, typ)
			count += n
		}
		slices.Sort(types)
		properties[name] = map[string]any{"type": types}
		if count == p.Rows {
			required = append(required, name)
		}
	}
	slices.Sort(required)
	return map[string]any{
		"$schema": "https://json-schema.org/draft/2020-12/schema", "type": "object",
		"properties": properties, "required": required,
	}
}
