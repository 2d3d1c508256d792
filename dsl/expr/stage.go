package expr

import (
	"fmt"
	"sync"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"go.yaml.in/yaml/v3"

	"github.com/sluiceml/sluice/dsl/document"
	"github.com/sluiceml/sluice/dsl/spec"
)

// stageNames are the types a rollout stage's checks see. They are the same in every pipeline.
var stageNames = sync.OnceValues(func() (*TypeSystem, map[string]*cel.Type) {
	ts := NewTypeSystem()
	side := ts.Define(&ObjectType{Name: "side", Code: "name", What: "a count of a side", Fields: map[string]*cel.Type{
		"requests": cel.DoubleType, "errors": cel.DoubleType, "client_errors": cel.DoubleType, "error_rate": cel.DoubleType, "loss": cel.DoubleType, "p50_ms": cel.DoubleType, "p99_ms": cel.DoubleType, "crashes": cel.DoubleType,
		"first_token_p50_ms": cel.DoubleType, "first_token_p99_ms": cel.DoubleType, "tokens_per_s": cel.DoubleType,
	}, Ranges: map[string]Range{
		"requests": notNegative, "errors": notNegative, "client_errors": notNegative, "error_rate": share, "loss": notNegative, "p50_ms": notNegative, "p99_ms": notNegative, "crashes": notNegative,
	}})
	delta := ts.Define(&ObjectType{Name: "delta", Code: "name", What: "a difference of candidate and stable", Fields: map[string]*cel.Type{"samples": cel.DoubleType, "agreement": cel.DoubleType, "max_abs": cel.DoubleType}, Ranges: map[string]Range{
		"samples": notNegative, "agreement": share, "max_abs": notNegative,
	}})
	return ts, map[string]*cel.Type{"candidate": side, "stable": side, "delta": delta}
})

// FreeNames are the names that an expression sees, and their types, which sees nothing of the pipeline but params: over rows, over a
// stage's counts, or over a trigger's value.
func FreeNames(s Scope, pipeline *TypeSystem, params *cel.Type) (*TypeSystem, map[string]*cel.Type) {
	switch s {
	case ScopeRow:
		return pipeline, map[string]*cel.Type{"row": cel.MapType(cel.StringType, cel.DynType), "params": params}
	case ScopeValue:
		return valueNames()
	case ScopeParams:
		return pipeline, map[string]*cel.Type{"params": params}
	case ScopePlain, ScopeGate, ScopeUntil, ScopeOnce, ScopeSecret, ScopeStage:
	}
	return stageNames()
}

// EvalStageCheck evaluates one check of a rollout stage. Rates and latencies of a side without requests or tokens, losses without labels, and
// differences without samples, are absent: a check that reads them has the verdict error. err means that e is no check at all.
func EvalStageCheck(e spec.Expr, candidate, stable spec.SideCounts, d spec.Delta) (spec.Check, error) {
	ts, vars := stageNames()
	return evalCheck(e, ScopeStage, ts, vars, map[string]any{
		"candidate": sideValue(ts, candidate), "stable": sideValue(ts, stable), "delta": deltaValue(ts, d),
	})
}

// evalCheck evaluates a condition outside of any pipeline. err means that e is none.
func evalCheck(e spec.Expr, s Scope, ts *TypeSystem, vars map[string]*cel.Type, values map[string]any) (spec.Check, error) {
	env, err := newEnv(s, ts, vars)
	if err != nil {
		return spec.Check{}, err
	}
	src := document.New(document.File{Source: []byte(e)})
	x := &Expression{Text: string(e), Node: &yaml.Node{Kind: yaml.ScalarNode, Value: string(e), Line: 1, Column: 1}, Scope: s, Expected: Expected{Type: goBool}}
	x.Compile(src, ts, env, vars)
	if !x.OK {
		return spec.Check{}, fmt.Errorf("check %q: %w", e, src.Findings)
	}
	names, err := cel.NewActivation(values)
	if err != nil {
		return spec.Check{}, err
	}
	check := spec.Check{Expression: string(e), Verdict: spec.VerdictFail}
	holds, seen, err := x.Holds(names)
	check.Values = seen
	if err != nil {
		check.Verdict, check.Error = spec.VerdictError, err.Error()
	} else if holds {
		check.Verdict = spec.VerdictPass
	}
	return check, nil
}

func sideValue(ts *TypeSystem, s spec.SideCounts) *Object {
	fields := map[string]ref.Val{}
	for name, value := range s.Values() {
		fields[name] = types.Double(value)
	}
	return ts.NewObject("side", fields)
}

func deltaValue(ts *TypeSystem, d spec.Delta) *Object {
	fields := map[string]ref.Val{"samples": types.Double(d.Samples)}
	if d.Samples > 0 {
		fields["agreement"], fields["max_abs"] = types.Double(d.Agreement), types.Double(d.MaxAbs)
	}
	return ts.NewObject("delta", fields)
}
