package expr

import (
	"math"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
	"github.com/google/cel-go/parser"

	"github.com/sluiceml/sluice/dsl/expr/meter"
)

// best are the macro list.best(x, expr), the element with the largest value of expr, the first of several, an absent one of none, and the
// function behind it.
func best() []cel.EnvOption {
	element := cel.TypeParamType("T")
	var overloads []cel.FunctionOpt
	for _, value := range []*cel.Type{cel.DoubleType, cel.IntType, cel.StringType, cel.DurationType, cel.TimestampType} {
		overloads = append(overloads, cel.Overload("best_by_"+value.TypeName(), []*cel.Type{cel.ListType(element), cel.ListType(value)}, element,
			cel.BinaryBinding(pickBest)))
	}
	return []cel.EnvOption{overElements("best", meter.BestOf), cel.Function(meter.BestOf, overloads...)}
}

// boundList is the name the list has inside the expansion.
const boundList = "@list"

// overElements is the macro list.NAME(x, expr) for a function of a list, and of another with the value of expr for each of its elements. It
// expands to a binding of the list, so that it is evaluated once, and the call.
func overElements(name, function string) cel.EnvOption {
	expand := func(f cel.MacroExprFactory, target ast.Expr, args []ast.Expr) (ast.Expr, *cel.Error) {
		if args[0].Kind() != ast.IdentKind {
			return nil, f.NewError(args[0].ID(), "write ."+name+"(x, expression): x is each element in turn")
		}
		values, err := parser.MakeMap(f, f.NewIdent(boundList), args)
		if err != nil {
			return nil, err
		}
		return f.NewComprehension(f.NewList(), "#unused", boundList, target, f.NewLiteral(types.False), f.NewIdent(boundList),
			f.NewCall(function, f.NewIdent(boundList), values)), nil
	}
	return cel.Macros(cel.ReceiverMacro(name, 2, expand))
}

// pickBest compares as CEL does.
func pickBest(elements, values ref.Val) ref.Val {
	list, of := elements.(traits.Lister), values.(traits.Lister)
	size, ok := list.Size().(types.Int)
	if !ok || size == 0 {
		return types.WrapErr(&absentError{message: "`best` of an empty list is undefined"})
	}
	var at types.Int
	for i := range size {
		value := of.Get(i)
		if f, isDouble := value.(types.Double); isDouble && math.IsNaN(float64(f)) {
			return types.NewErr("`best` compares a value that is not a number")
		}
		if i == 0 {
			continue
		}
		comparer, ok := value.(traits.Comparer)
		if !ok {
			return types.MaybeNoSuchOverloadErr(value)
		}
		switch larger := comparer.Compare(of.Get(at)); {
		case types.IsUnknownOrError(larger):
			return larger
		case larger == types.IntOne:
			at = i
		}
	}
	return list.Get(at)
}
