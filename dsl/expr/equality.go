package expr

import (
	"slices"
	"strings"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/overloads"
)

// maxNestedEqualities bounds the equalities within equalities that are made to compare values of two types.
const maxNestedEqualities = 8

// numbers are the types of numbers, as CEL writes them in messages.
var numbers = []string{"int", "uint", "double", "decimal"}

// comparableTypes reports whether values of two types may be compared although CEL does not say so: numbers, and over rows anything with null, which
// a field may be whatever its type.
func comparableTypes(a, b string, overRows bool) bool {
	return slices.Contains(numbers, a) && slices.Contains(numbers, b) || overRows && (a == "null" || b == "null")
}

// check types an expression. CEL orders ints and doubles among each other but has no equality of the two, so `rows.rejected == 0` would
// be an error where `rows.rejected <= 0` is none: one side of such an equality becomes dyn here, so that they are compared by value.
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
	found := map[int64]bool{} // the IDs of the calls
	for _, err := range issues.Errors() {
		m := overload.FindStringSubmatch(err.Message)
		if m == nil || m[1] != operators.Equals && m[1] != operators.NotEquals && (m[1] != operators.In || !overRows) {
			continue
		}
		a, b, _ := strings.Cut(strings.TrimSuffix(strings.TrimPrefix(m[2], "("), ")"), ", ")
		if m[1] == operators.In {
			b = strings.TrimSuffix(strings.TrimPrefix(b, "list("), ")")
		}
		if comparableTypes(a, b, overRows) {
			found[err.ExprID] = true
		}
	}
	id := ast.MaxID(tree)
	factory := ast.NewExprFactory()
	ast.PostOrderVisit(tree.Expr(), ast.NewExprVisitor(func(x ast.Expr) {
		if !found[x.ID()] || x.Kind() != ast.CallKind {
			return
		}
		call := x.AsCall()
		args := append([]ast.Expr{}, call.Args()...)
		if span, ok := tree.SourceInfo().GetOffsetRange(args[0].ID()); ok {
			tree.SourceInfo().SetOffsetRange(id, span)
		}
		args[0] = factory.NewCall(id, overloads.TypeConvertDyn, args[0])
		x.SetKindCase(factory.NewCall(x.ID(), call.FunctionName(), args...))
		id++
	}))
	return len(found) > 0
}
