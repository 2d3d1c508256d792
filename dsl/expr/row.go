package expr

import (
	"fmt"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types/ref"

	"github.com/sluiceml/sluice/dsl/expr/meter"
	"github.com/sluiceml/sluice/dsl/spec"
)

// maxRowCost bounds one evaluation over one row, and each call in it, in operations: enough for a scan of a row of megabytes, and
// an end for nested comprehensions over it.
const maxRowCost = 100_000_000

// RowProgram is a compiled expression over `row` and `params`. It may be used from several goroutines.
type RowProgram struct {
	eval   func(cel.Activation) (ref.Val, error)
	params map[string]any
}

// rowNames are what an expression over a row sees.
var rowNames = map[string]*cel.Type{"row": cel.MapType(cel.StringType, cel.DynType), "params": cel.MapType(cel.StringType, cel.DynType)}

// CompileRow compiles an expression over the fields of a row, whose types are known only when it is evaluated.
func CompileRow(e spec.Expr, params map[string]any) (*RowProgram, error) {
	base, err := rowEnv()
	if err != nil {
		return nil, err
	}
	return compileRow(base, e, params)
}

func compileRow(base *meter.Functions, e spec.Expr, params map[string]any) (*RowProgram, error) {
	env, err := Extend(base.Env, rowNames, cel.CustomTypeAdapter(NewTypeSystem())) // which puts maps in order
	if err != nil {
		return nil, err
	}
	parsed, issues := env.Parse(string(e))
	if issues.Err() != nil {
		return nil, issues.Err()
	}
	checked, issues := check(env, parsed, ScopeRow)
	if issues.Err() != nil {
		return nil, issues.Err()
	}
	eval, err := base.Row(env, checked)
	if err != nil {
		return nil, err
	}
	return &RowProgram{params: params, eval: eval}, nil
}

// RowParams gives parameters that travelled as JSON the types they were declared with, in the form that CompileRow takes.
func RowParams(params map[string]spec.RowParam) (typed map[string]any, err error) {
	ts := NewTypeSystem()
	typed = make(map[string]any, len(params))
	for name, p := range params {
		t := ParamType(spec.Param{Type: p.Type, Items: p.Items})
		if t == nil {
			return nil, fmt.Errorf("the parameter `%s` has the unknown type %q", name, p.Type)
		}
		if p.Value == nil {
			continue
		}
		if typed[name], err = ts.Decode(t, p.Value); err != nil {
			return nil, fmt.Errorf("the parameter `%s`: %w", name, err)
		}
	}
	return typed, nil
}

// Eval returns the expression's value as a row holds it (see package value). A missing field, a wrong type and a value that rows lack are
// errors, and too many operations are meter.ErrCost.
func (p *RowProgram) Eval(row map[string]any) (any, error) {
	value, err := p.eval(rowVariables{row: row, params: p.params})
	if err != nil {
		return nil, err
	}
	return rowValues.native(value)
}

// rowVariables are what an expression over a row sees: a map of them would have to be made for each row.
type rowVariables struct{ row, params map[string]any }

// ResolveName implements cel.Activation.
func (v rowVariables) ResolveName(name string) (any, bool) {
	switch name {
	case "row":
		return v.row, true
	case "params":
		return v.params, true
	}
	return nil, false
}

// Parent implements cel.Activation.
func (rowVariables) Parent() cel.Activation { return nil }

// ReadsFields reports whether an expression uses `row` to read fields by name and for nothing else. As a map it has no fields that
// could be checked.
func (e *Expression) ReadsFields(env *cel.Env) bool {
	parsed, issues := env.Parse(e.Text)
	if issues.Err() != nil {
		return true // reported all the same
	}
	uses, fields := 0, 0
	isRow := func(x ast.Expr) bool { return x.Kind() == ast.IdentKind && x.AsIdent() == "row" }
	ast.PreOrderVisit(parsed.NativeRep().Expr(), ast.NewExprVisitor(func(x ast.Expr) {
		switch {
		case isRow(x):
			uses++
		case x.Kind() == ast.SelectKind && isRow(x.AsSelect().Operand()),
			x.Kind() == ast.CallKind && x.AsCall().FunctionName() == operators.OptSelect && isRow(x.AsCall().Args()[0]):
			fields++
		}
	}))
	return uses == fields
}
