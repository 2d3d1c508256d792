package transform

import (
	"fmt"

	"github.com/sluiceml/sluice/dsl/expr"
	"github.com/sluiceml/sluice/dsl/transform"
	"github.com/sluiceml/sluice/pipelines/rows"
)

// compileMap compiles a MapToFields, which computes fields.
func compileMap(c transform.MapToFields, params map[string]any) (rowFunc, error) {
	programs := make(map[string]*expr.RowProgram, len(c.Fields))
	for name, e := range c.Fields {
		p, err := expr.CompileRow(e, params)
		if err != nil {
			return nil, fmt.Errorf("field %s: %w", name, err)
		}
		programs[name] = p
	}
	return func(r rows.Row) error {
		computed := make(rows.Row, len(programs))
		for name, p := range programs {
			v, err := p.Eval(r)
			if err != nil {
				return rows.RejectEval("field "+name, err)
			}
			computed[name] = v
		}
		if !c.Append {
			clear(r)
		}
		for _, name := range c.Drop {
			delete(r, name)
		}
		for name, v := range computed {
			r[name] = v
		}
		return nil
	}, nil
}
