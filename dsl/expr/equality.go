package expr

import (
	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/overloads"
)

// maxNestedEqualities bounds the equalities within equalities that are made to compare an int with a double.
const maxNestedEqualities = 8

// check types an expression. CEL orders ints and doubles among each other but has no equality of the two, so `rows.rejected == 0` would
// be an error where `rows.rejected <= 0` is none: the int side of such an equality becomes a double here.
func check(env *cel.Env, parsed *cel.Ast) (*cel.Ast, *cel.Issues) {
	checked, issues := env.Check(parsed)
	for range maxNestedEqualities {
		if issues.Err() == nil || !widenEqualities(parsed.NativeRep(), issues) {
			break
		}
		checked, issues = env.Check(parsed)
	}
	return checked, issues
}

// widenEqualities changes the equalities that issues name; it reports whether there were any.
func widenEqualities(tree *ast.AST, issues *cel.Issues) bool {
	ints := map[int64]int{} // the argument that is an int, by the call's ID
	for _, err := range issues.Errors() {
		m := overload.FindStringSubmatch(err.Message)
		switch {
		case m == nil || m[1] != operators.Equals && m[1] != operators.NotEquals:
		case m[2] == "(int, double)":
			ints[err.ExprID] = 0
		case m[2] == "(double, int)":
			ints[err.ExprID] = 1
		}
	}
	id := ast.MaxID(tree)
	factory := ast.NewExprFactory()
	ast.PostOrderVisit(tree.Expr(), ast.NewExprVisitor(func(x ast.Expr) {
		arg, ok := ints[x.ID()]
		if !ok || x.Kind() != ast.CallKind {
			return
		}
		call := x.AsCall()
		args := append([]ast.Expr{}, call.Args()...)
		if span, ok := tree.SourceInfo().GetOffsetRange(args[arg].ID()); ok {
			tree.SourceInfo().SetOffsetRange(id, span)
		}
		args[arg] = factory.NewCall(id, overloads.TypeConvertDouble, args[arg])
		x.SetKindCase(factory.NewCall(x.ID(), call.FunctionName(), args...))
		id++
	}))
	return len(ints) > 0
}
