package transform

import (
	"fmt"

	"github.com/sluiceml/sluice/dsl/expr"
	"github.com/sluiceml/sluice/dsl/transform"
	"github.com/sluiceml/sluice/pipelines/rows"
)

// compileSample compiles a Sample, which keeps a share of the rows.
func compileSample(c transform.Sample, params map[string]any) (rowFunc, error) {
	key := func(r rows.Row) (any, error) { return map[string]any(r), nil }
	if c.Key != "" {
		p, err := expr.CompileRow(c.Key, params)
		if err != nil {
			return nil, fmt.Errorf("key: %w", err)
		}
		key = func(r rows.Row) (any, error) { return p.Eval(r) }
	}
	return func(r rows.Row) error {
		v, err := key(r)
		if err != nil {
			return rows.RejectEval("key", err)
		}
		of, err := rows.KeyOf(map[string]any{"sample": v}) // other digests than Split's, so that the sample is independent of the parts
		if err != nil {
			return err
		}
		if of.Fraction() >= float64(c.Fraction) {
			return rows.ErrDropped
		}
		return nil
	}, nil
}
