package pipelines

import (
	"fmt"

	"github.com/sluiceml/sluice/dsl"
)

// compileSample keeps a share of the rows.
func compileSample(c dsl.Sample, params map[string]any) (rowFunc, error) {
	key := func(r row) (any, error) { return map[string]any(r), nil }
	if c.Key != "" {
		p, err := dsl.CompileRow(c.Key, params)
		if err != nil {
			return nil, fmt.Errorf("key: %w", err)
		}
		key = func(r row) (any, error) { return p.Eval(r) }
	}
	return func(r row) error {
		v, err := key(r)
		if err != nil {
			return rejectEval("key", err)
		}
		of, err := keyOf(map[string]any{"sample": v}) // not as Split has it: who is sampled must not say who is in which part
		if err != nil {
			return err
		}
		if of.fraction() >= float64(c.Fraction) {
			return errDropped
		}
		return nil
	}, nil
}
