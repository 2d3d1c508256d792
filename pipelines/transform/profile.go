package transform

import (
	"github.com/sluiceml/sluice/dsl/expr"
	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/dsl/transform"
	"github.com/sluiceml/sluice/internal/fault"
	"github.com/sluiceml/sluice/pipelines/columns"
	"github.com/sluiceml/sluice/pipelines/rows"
)

// Columns are the computed columns of a profile, by name.
type Columns map[string]*expr.RowProgram

// profile compiles a Profile.
func (c *Compiled) profile(config transform.ProfileRows, given Deps) (err error) {
	c.Profile, err = CompileColumns(config.Columns, given.Params)
	return err
}

// CompileColumns compiles the expressions of a profile's computed columns.
func CompileColumns(computed map[string]spec.Expr, params map[string]any) (Columns, error) {
	all := make(Columns, len(computed))
	for name, e := range computed {
		var err error
		if all[name], err = expr.CompileRow(e, params); err != nil {
			return nil, fault.Errorf(fault.Invalid, "profile: column %s: %w", name, err)
		}
	}
	return all, nil
}

// Describe adds a row to a profile.
func (c Columns) Describe(to *columns.Profile, part string, r rows.Row) error {
	var computed map[string]any
	for name, program := range c {
		if computed == nil {
			computed = make(map[string]any, len(c))
		}
		v, err := program.Eval(r)
		if err != nil { // the row is kept; the column counts a null
			v = nil
		}
		computed[name] = v
	}
	if err := to.Add(part, r, computed); err != nil {
		return fault.Errorf(fault.User, "%w", err)
	}
	return nil
}
