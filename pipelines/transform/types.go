package transform

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"

	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/dsl/transform"
	"github.com/sluiceml/sluice/pipelines/columns"
	"github.com/sluiceml/sluice/pipelines/rows"
)

// keepsFields are the transforms that do not change any field of a row.
var keepsFields = []string{
	transform.TypeOf[transform.AssertEqual](), transform.TypeOf[transform.Decontaminate](), transform.TypeOf[transform.Deduplicate](),
	transform.TypeOf[transform.Filter](), transform.TypeOf[transform.Flatten](), transform.TypeOf[transform.Partition](),
	transform.TypeOf[transform.ProfileRows](), transform.TypeOf[transform.Sample](), transform.TypeOf[transform.Split](),
	transform.TypeOf[transform.ValidateWithSchema](),
}

// Retyped returns the type of the rows that a transform emits, given that of the rows it receives. The type of a computed column is nil:
// the values determine it.
func Retyped(t spec.Transform, in *columns.Type) (*columns.Type, error) {
	out := &columns.Type{Kind: columns.Struct}
	switch {
	case slices.Contains(keepsFields, t.Type):
		return in, nil
	case transform.Is[transform.MapToFields](t.Type):
		c, err := rows.DecodeConfig[transform.MapToFields](t)
		return mapped(c, in), err
	case transform.Is[transform.Combine](t.Type):
		c, err := rows.DecodeConfig[transform.Combine](t)
		for _, name := range c.GroupBy {
			out.With(name, in.Fields[name])
		}
		for name := range c.Combine {
			out.With(name, nil)
		}
		return out, err
	case transform.Is[transform.Exec](t.Type): // which fields it changes is unknown; values that do not fit show it
		return in, nil
	}
	named := struct {
		Fields    []string
		Field, As string
	}{}
	if len(t.Config) > 0 {
		if err := json.Unmarshal(t.Config, &named); err != nil {
			return nil, fmt.Errorf("config: %w", err)
		}
	}
	explodes := transform.Is[transform.Explode](t.Type)
	for name, typ := range in.Fields {
		switch {
		case !slices.Contains(append(named.Fields, named.Field, named.As), name):
		case explodes && typ != nil && typ.Kind == columns.List:
			typ = typ.Items
		default:
			typ = nil
		}
		out.With(name, typ)
	}
	return out, nil
}

// aField matches an expression that is just a field of the row.
var aField = regexp.MustCompile(`^\s*row\.([A-Za-z_][A-Za-z0-9_]*)\s*$`)

func mapped(c transform.MapToFields, in *columns.Type) *columns.Type {
	out := &columns.Type{Kind: columns.Struct}
	if c.Append {
		for name, t := range in.Fields {
			if !slices.Contains(c.Drop, name) {
				out.With(name, t)
			}
		}
	}
	for name, e := range c.Fields {
		var t *columns.Type
		if at := aField.FindStringSubmatch(string(e)); at != nil {
			t = in.Fields[at[1]]
		}
		out.With(name, t)
	}
	return out
}
