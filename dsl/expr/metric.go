package expr

import (
	"errors"
	"sync"

	"github.com/google/cel-go/cel"

	"github.com/sluiceml/sluice/dsl/spec"
)

// MetricHolds evaluates the condition of a metric trigger over a value that was measured.
func MetricHolds(m *spec.MetricTrigger, value float64) (bool, error) {
	ts, vars := valueNames()
	check, err := evalCheck(m.Condition, ScopeValue, ts, vars, map[string]any{"value": value})
	switch {
	case err != nil:
		return false, err
	case check.Verdict == spec.VerdictError:
		return false, errors.New(check.Error)
	}
	return check.Verdict == spec.VerdictPass, nil
}

// valueNames is what the condition of a metric trigger sees.
var valueNames = sync.OnceValues(func() (*TypeSystem, map[string]*cel.Type) {
	return NewTypeSystem(), map[string]*cel.Type{"value": cel.DoubleType}
})
