package expr

import (
	"regexp"
	"strconv"

	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/overloads"
	"github.com/google/cel-go/common/types"

	"github.com/sluiceml/sluice/dsl/advice"
	"github.com/sluiceml/sluice/dsl/document"
)

// AlwaysTrue reports whether a condition, which could be read, holds whatever is measured: it reads nothing, or has `|| true`.
func (e *Expression) AlwaysTrue() bool {
	return e.OK && (len(e.Refs) == 0 || alwaysTrue(e.tree.Expr()))
}

func alwaysTrue(x ast.Expr) bool {
	switch x.Kind() {
	case ast.LiteralKind:
		return x.AsLiteral() == types.True
	case ast.CallKind:
		switch args := x.AsCall().Args(); x.AsCall().FunctionName() {
		case operators.LogicalOr:
			return alwaysTrue(args[0]) || alwaysTrue(args[1])
		case operators.LogicalAnd:
			return alwaysTrue(args[0]) && alwaysTrue(args[1])
		}
	}
	return false
}

var inside = regexp.MustCompile(`\$\{\s*((?:params|steps|inputs|matrix|run|last|serving)\.[^{}]*?)\s*\}`)

// checkTextInside warns of a constant that is written as if it were filled in. The texts of rows may have such in them.
func (e *Expression) checkTextInside(src *document.Source, x ast.Expr) {
	if x.Kind() != ast.LiteralKind || e.Scope == ScopeRow {
		return
	}
	text, _ := x.AsLiteral().(types.String)
	if m := inside.FindStringSubmatch(string(text)); m != nil {
		hint := "write '...' + string(" + m[1] + ")"
		if m[0] == string(text) {
			hint = "write " + m[1] + ", without quotes and braces"
		}
		e.warn(src, x, "template", hint, "`"+m[0]+"` is plain text within an expression, and is not replaced")
	}
}

// conversions are the functions that read a text, with an example of what they take.
var conversions = map[string]struct {
	to      *types.Type
	example string
}{
	overloads.TypeConvertDuration:  {types.DurationType, `duration("90s"), "5m" or "1h30m"`},
	overloads.TypeConvertTimestamp: {types.TimestampType, `timestamp("2026-01-31T12:00:00Z")`},
	overloads.TypeConvertInt:       {types.IntType, `int("8")`},
	overloads.TypeConvertDouble:    {types.DoubleType, `double("0.5")`},
}

var justDate = regexp.MustCompile(`^\d{4}-(0[1-9]|1[0-2])-(0[1-9]|[12]\d|3[01])$`)

// checkConstant reports a call that fails whenever it is made: a constant text that its function cannot read, or a division by 0.
func (e *Expression) checkConstant(src *document.Source, x ast.Expr) {
	if x.Kind() != ast.CallKind {
		return
	}
	call := x.AsCall()
	if name := call.FunctionName(); (name == operators.Divide || name == operators.Modulo) && call.Args()[1].AsLiteral() == types.Int(0) {
		e.Report(src, e.offset(x.ID()), "constant", "", "division by 0")
		return
	}
	if name := call.FunctionName(); name == operators.Index && call.Args()[1].Kind() == ast.LiteralKind {
		if i, ok := call.Args()[1].AsLiteral().(types.Int); ok && i < 0 {
			e.Report(src, e.offset(call.Args()[1].ID()), "constant", "the last element is list[list.size() - 1]", "an index cannot be negative: this fails in every run")
		}
		return
	}
	conversion, ok := conversions[call.FunctionName()]
	if !ok || len(call.Args()) != 1 || call.Args()[0].Kind() != ast.LiteralKind {
		return
	}
	text, ok := call.Args()[0].AsLiteral().(types.String)
	if !ok || !types.IsError(text.ConvertToType(conversion.to)) {
		return
	}
	hint := "write " + conversion.example
	switch {
	case conversion.to == types.DurationType:
		hint = "write duration(\"" + advice.Duration(string(text)) + "\")"
	case justDate.MatchString(string(text)):
		hint = "write timestamp(\"" + string(text) + "T00:00:00Z\")"
	}
	e.Report(src, e.offset(call.Args()[0].ID()), "constant", hint, "`"+call.FunctionName()+"` cannot read "+strconv.Quote(string(text))+": this fails in every run")
}
