package expr

import (
	"slices"
	"strings"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/overloads"
)

// maxNestedEqualities bounds the equalities within equalities that are made to compare an int with a double.
const maxNestedEqualities = 8

// numbers are the types of numbers, as CEL writes them in messages.
var numbers = []string{"int", "uint", "double", "decimal"}

// comparableTypes reports whether values of two types may be compared although CEL does not say so: numbers, and over rows anything with null, which
// a field may be whatever its type.
func comparableTypes(a, b string, overRows bool) bool {
	return slices.Contains(numbers, a) && slices.Contains(numbers, b) || overRows && (a == "null" || b == "null")
}

// check types an expression. CEL orders ints and doubles among each other but has no equality of the two, so `rows.rejected == 0` would
// be an error where `rows.rejected <= 0` is none: the int side of such an equality becomes a double here. Of two other types of numbers, they
// are compared by value.
func check(env *cel.Env, parsed *cel.Ast, scope Scope) (*cel.Ast, *cel.Issues) {
	checked, issues := env.Check(parsed)
	for range maxNestedEqualities {
		if issues.Err() == nil || !widenEqualities(parsed.NativeRep(), issues, scope == ScopeRow) {
			break
		}
		checked, issues = env.Check(parsed)
	}
	return checked, issues
}

// widenEqualities changes the equalities that issues name; it reports whether there were any.
func widenEqualities(tree *ast.AST, issues *cel.Issues, overRows bool) bool {
	ints := map[int64]int{} // the argument to convert, by the call's ID
	convert := map[int64]string{}
	for _, err := range issues.Errors() {
		m := overload.FindStringSubmatch(err.Message)
		switch {
		case m == nil || m[1] != operators.Equals && m[1] != operators.NotEquals && (m[1] != operators.In || !overRows):
		case m[2] == "(int, double)":
			ints[err.ExprID], convert[err.ExprID] = 0, overloads.TypeConvertDouble
		case m[2] == "(double, int)":
			ints[err.ExprID], convert[err.ExprID] = 1, overloads.TypeConvertDouble
		default:
			a, b, _ := strings.Cut(strings.TrimSuffix(strings.TrimPrefix(m[2], "("), ")"), ", ")
			if m[1] == operators.In {
				b = strings.TrimSuffix(strings.TrimPrefix(b, "list("), ")")
			}
			if comparableTypes(a, b, overRows) {
				ints[err.ExprID], convert[err.ExprID] = 0, overloads.TypeConvertDyn
			}
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
		args[arg] = factory.NewCall(id, convert[x.ID()], args[arg])
		x.SetKindCase(factory.NewCall(x.ID(), call.FunctionName(), args...))
		id++
	}))
	return len(ints) > 0
}
