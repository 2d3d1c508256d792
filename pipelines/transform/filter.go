package transform

import (
	"fmt"

	"github.com/sluiceml/sluice/dsl/expr"
	"github.com/sluiceml/sluice/dsl/expr/value"
	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/dsl/transform"
	"github.com/sluiceml/sluice/pipelines/rows"
)

// compileFilter compiles a Filter, which drops rows.
func compileFilter(c transform.Filter, params map[string]any) (rowFunc, error) {
	keep, err := compileCondition("keep", c.Keep, params)
	if err != nil {
		return nil, err
	}
	return func(r rows.Row) error {
		ok, err := keep(r)
		if err == nil && !ok {
			return rows.ErrDropped
		}
		return err
	}, nil
}

// compileCondition compiles a bool expression over a row. Evaluation errors are rejections.
func compileCondition(key string, e spec.Expr, params map[string]any) (func(rows.Row) (bool, error), error) {
	p, err := expr.CompileRow(e, params)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", key, err)
	}
	return func(r rows.Row) (bool, error) {
		v, err := p.Eval(r)
		if err != nil {
			return false, rows.RejectEval(key, err)
		}
		b, ok := v.(bool)
		if !ok {
			return false, rows.Reject("expression", "%s: got a value of type %s, not a bool", key, value.TypeName(v))
		}
		return b, nil
	}, nil
}
