package expr

import (
	"errors"
	"sync"

	"github.com/google/cel-go/cel"

	"github.com/sluiceml/sluice/dsl/spec"
)

// MetricHolds evaluates the condition of a metric trigger, or of a rollout's query, over a value that was measured.
func MetricHolds(condition spec.Expr, value float64) (bool, error) {
	ts, vars := valueNames()
	check, err := evalCheck(condition, ScopeValue, ts, vars, map[string]any{"value": value})
	switch {
	case err != nil:
		return false, err
	case check.Verdict == spec.VerdictError:
		return false, errors.New(check.Error)
	}
	return check.Verdict == spec.VerdictPass, nil
}

// valueNames is what such a condition sees.
var valueNames = sync.OnceValues(func() (*TypeSystem, map[string]*cel.Type) {
	return NewTypeSystem(), map[string]*cel.Type{"value": cel.DoubleType}
})
