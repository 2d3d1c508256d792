package expr

import (
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"
)

// readMetrics lets metrics["val/acc"] read a metric whose name is no identifier: metrics are an object, which CEL indexes with nothing, so
// the index becomes the selection that could not be written. Of a map both are the same.
func readMetrics(tree *ast.AST) {
	factory := ast.NewExprFactory()
	ast.PostOrderVisit(tree.Expr(), ast.NewExprVisitor(func(x ast.Expr) {
		if x.Kind() != ast.CallKind || len(x.AsCall().Args()) != 2 {
			return
		}
		of, key := x.AsCall().Args()[0], x.AsCall().Args()[1]
		name, ok := key.AsLiteral().(types.String)
		if key.Kind() != ast.LiteralKind || !ok || !isMetrics(of) {
			return
		}
		switch x.AsCall().FunctionName() {
		case operators.Index:
			x.SetKindCase(factory.NewSelect(x.ID(), of, string(name)))
		case operators.OptIndex:
			x.SetKindCase(factory.NewCall(x.ID(), operators.OptSelect, of, key))
		}
	}))
}

// isMetrics reports whether an expression is a name or a field `metrics`.
func isMetrics(x ast.Expr) bool {
	switch x.Kind() {
	case ast.IdentKind:
		return x.AsIdent() == "metrics"
	case ast.SelectKind:
		return x.AsSelect().FieldName() == "metrics"
	case ast.CallKind:
		args := x.AsCall().Args()
		return x.AsCall().FunctionName() == operators.OptSelect && len(args) == 2 && args[1].AsLiteral() == types.String("metrics")
	}
	return false
}
