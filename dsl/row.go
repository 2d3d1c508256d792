package dsl

import (
	"encoding/base64"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
	"github.com/google/cel-go/ext"
)

// maxRowCost bounds one evaluation over one row, in CEL's cost units: enough for a scan of a row of megabytes, and an end for
// nested comprehensions over it.
const maxRowCost = 100_000_000

// RowProgram is a compiled expression over `row` and `params`. It may be used from several goroutines.
type RowProgram struct {
	program cel.Program
	params  map[string]any
}

// CompileRow compiles an expression over the fields of a row, whose types are known only when it is evaluated.
func CompileRow(e Expr, params map[string]any) (*RowProgram, error) {
	env, err := cel.NewEnv(
		cel.Variable("row", cel.MapType(cel.StringType, cel.DynType)),
		cel.Variable("params", cel.MapType(cel.StringType, cel.DynType)),
		cel.CrossTypeNumericComparisons(true),
		cel.OptionalTypes(),
		ext.Strings(), ext.Math(), ext.Lists(), ext.Sets(), ext.Encoders(),
	)
	if err != nil {
		return nil, err
	}
	ast, issues := env.Compile(string(e))
	if issues.Err() != nil {
		return nil, issues.Err()
	}
	program, err := env.Program(ast, cel.EvalOptions(cel.OptOptimize), cel.CostLimit(maxRowCost))
	if err != nil {
		return nil, err
	}
	return &RowProgram{program: program, params: params}, nil
}

// Eval returns the expression's value as JSON has it: nil, bool, int64, float64, string, []any or map[string]any. Timestamps and
// durations become text, bytes base64. A missing field, a wrong type and a value that JSON lacks are errors.
func (p *RowProgram) Eval(row map[string]any) (any, error) {
	value, _, err := p.program.Eval(map[string]any{"row": row, "params": p.params})
	if err != nil {
		return nil, err
	}
	return jsonValue(value)
}

// jsonValue turns a CEL value into what encoding/json would make of the same JSON, but keeps whole numbers whole.
func jsonValue(v ref.Val) (any, error) {
	switch v := v.(type) {
	case types.Null:
		return nil, nil
	case types.Bool:
		return bool(v), nil
	case types.Int:
		return int64(v), nil
	case types.Uint:
		if v > math.MaxInt64 {
			return nil, fmt.Errorf("%d is too large for a field", uint64(v))
		}
		return int64(v), nil
	case types.Double:
		if math.IsNaN(float64(v)) || math.IsInf(float64(v), 0) {
			return nil, fmt.Errorf("%v is no JSON number", float64(v))
		}
		return float64(v), nil
	case types.String:
		return string(v), nil
	case types.Bytes:
		return base64.StdEncoding.EncodeToString(v), nil
	case types.Timestamp:
		return v.UTC().Format(time.RFC3339Nano), nil
	case types.Duration:
		return v.Duration.String(), nil
	case traits.Lister:
		return jsonList(v)
	case traits.Mapper:
		return jsonObject(v)
	}
	return nil, fmt.Errorf("a value of type %s has no form in JSON", v.Type().TypeName())
}

func jsonList(v traits.Lister) (any, error) {
	list := []any{}
	for it := v.Iterator(); it.HasNext() == types.True; {
		item, err := jsonValue(it.Next())
		if err != nil {
			return nil, err
		}
		list = append(list, item)
	}
	return list, nil
}

func jsonObject(v traits.Mapper) (any, error) {
	object := map[string]any{}
	for it := v.Iterator(); it.HasNext() == types.True; {
		key := it.Next()
		name, ok := key.(types.String)
		if !ok {
			return nil, errors.New("a map whose keys are not strings has no form in JSON")
		}
		value, err := jsonValue(v.Get(key))
		if err != nil {
			return nil, err
		}
		object[string(name)] = value
	}
	return object, nil
}
