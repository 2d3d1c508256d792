package value

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/decls"
	"github.com/google/cel-go/common/env"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/overloads"
	"github.com/google/cel-go/common/stdlib"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
)

// Operators are the operators and conversions that Arithmetic declares in place of those of CEL's library.
var Operators = []string{
	operators.Add, operators.Subtract, operators.Multiply, operators.Divide, operators.Modulo, operators.Negate,
	operators.Less, operators.LessEquals, operators.Greater, operators.GreaterEquals,
	overloads.TypeConvertDouble, overloads.TypeConvertInt, overloads.TypeConvertUint, overloads.TypeConvertString,
}

// Arithmetic declares Operators for expressions over rows, where the types of numbers are those of the data. Operands of different types are
// converted: an integer and a double to doubles, an integer and a decimal to decimals, a decimal and a double to doubles. The quotient of
// decimals is a double. It excludes the operators of CEL's library from that library, and declares `decimal`, which converts numbers and
// strings.
func Arithmetic(library *env.LibrarySubset) ([]cel.EnvOption, error) {
	var options []cel.EnvOption
	for _, std := range stdlib.Functions() {
		if !slices.Contains(Operators, std.Name()) {
			continue
		}
		library.AddExcludedFunctions(env.NewFunction(std.Name()))
		bound, err := std.Bindings()
		if err != nil {
			return nil, err
		}
		var declared []cel.FunctionOpt
		for _, o := range std.OverloadDecls() {
			declared = append(declared, cel.Overload(o.ID(), o.ArgTypes(), o.ResultType()))
		}
		declared = append(declared, mixed(std.Name())...)
		call := bound[len(bound)-1] // by the name of the function, which dispatches to the overloads
		if call.Binary != nil {
			declared = append(declared, cel.SingletonBinaryBinding(binary(std.Name(), call.Binary)))
		} else {
			one := call.Unary
			if one == nil {
				one = func(v ref.Val) ref.Val { return call.Function(v) }
			}
			declared = append(declared, cel.SingletonUnaryBinding(unary(std.Name(), one)))
		}
		options = append(options, cel.Function(std.Name(), declared...))
	}
	return append(options, cel.Function("decimal", cel.Overload("to_decimal", []*cel.Type{cel.DynType}, DecimalType, cel.UnaryBinding(toDecimal)))), nil
}

// numbers are the types of numbers.
var numbers = []*cel.Type{cel.IntType, cel.UintType, cel.DoubleType, DecimalType}

// ofDecimal are the results of operators and conversions that take one decimal.
var ofDecimal = map[string]*types.Type{
	operators.Negate: DecimalType, overloads.TypeConvertDouble: types.DoubleType, overloads.TypeConvertInt: types.IntType,
	overloads.TypeConvertUint: types.UintType, overloads.TypeConvertString: types.StringType,
}

// mixed declares the overloads of an operator that CEL's library does not have.
func mixed(operator string) (all []cel.FunctionOpt) {
	if result := ofDecimal[operator]; result != nil {
		return []cel.FunctionOpt{decls.Overload("decimal_"+operator, []*cel.Type{DecimalType}, result)}
	}
	for _, a := range numbers {
		for _, b := range numbers {
			if result := resultOf(operator, a, b); result != nil {
				all = append(all, decls.Overload("mixed_"+operator+a.TypeName()+b.TypeName(), []*cel.Type{a, b}, result))
			}
		}
	}
	return all
}

// resultOf returns the type of the result of an operator; nil if CEL's library has it, or there is none.
func resultOf(operator string, a, b *cel.Type) *cel.Type {
	decimal, double := a == DecimalType || b == DecimalType, a == cel.DoubleType || b == cel.DoubleType
	switch {
	case holds[operator] != nil:
		if decimal {
			return cel.BoolType
		}
		return nil
	case a == b && !decimal, operator == operators.Modulo && (decimal || double):
		return nil
	case double, decimal && operator == operators.Divide:
		return cel.DoubleType
	case decimal:
		return DecimalType
	}
	return cel.DynType // int or uint
}

// unary returns an operator or conversion that also takes decimals.
func unary(operator string, std func(ref.Val) ref.Val) func(ref.Val) ref.Val {
	return func(v ref.Val) ref.Val {
		switch v := v.(type) {
		case Decimal:
			if operator == operators.Negate {
				return Decimal{v.number.Neg()}
			}
			return v.ConvertToType(ofDecimal[operator])
		case types.Timestamp:
			if operator == overloads.TypeConvertString {
				return types.String(TimeText(v.Time))
			}
		case types.String:
			if operator == overloads.TypeConvertDouble && strings.ContainsAny(string(v), "_xXpP") { // which Go accepts in numbers
				return types.NewErr("%.40q is not a number", string(v))
			}
		}
		if _, ok := v.(traits.Negater); !ok && operator == operators.Negate {
			return types.MaybeNoSuchOverloadErr(v)
		}
		return std(v)
	}
}

// toDecimal converts a number or a text. A double becomes the shortest decimal that is read as that double.
func toDecimal(v ref.Val) ref.Val {
	if d, ok := Exact(v.Value()); ok {
		return d
	}
	text := ""
	switch v := v.(type) {
	case types.String:
		text = string(v)
	case types.Double:
		text = fmt.Sprint(float64(v))
	default:
		return types.MaybeNoSuchOverloadErr(v)
	}
	d, err := ParseDecimal(text)
	if err != nil {
		return types.WrapErr(err)
	}
	return d
}

// traitsOf are the traits of left operands, which CEL checks before it calls an operator.
var traitsOf = map[string]int{
	operators.Add: traits.AdderType, operators.Subtract: traits.SubtractorType, operators.Multiply: traits.MultiplierType,
	operators.Divide: traits.DividerType, operators.Modulo: traits.ModderType,
	operators.Less: traits.ComparerType, operators.LessEquals: traits.ComparerType,
	operators.Greater: traits.ComparerType, operators.GreaterEquals: traits.ComparerType,
}

// holds reports whether the outcome of a comparison makes an operator true; it is nil for operators that compute.
var holds = map[string]func(c int) bool{
	operators.Less:          func(c int) bool { return c < 0 },
	operators.LessEquals:    func(c int) bool { return c <= 0 },
	operators.Greater:       func(c int) bool { return c > 0 },
	operators.GreaterEquals: func(c int) bool { return c >= 0 },
}

// binary returns an operator that also takes numbers of different types.
func binary(operator string, std func(a, b ref.Val) ref.Val) func(a, b ref.Val) ref.Val {
	trait, is := traitsOf[operator], holds[operator]
	return func(a, b ref.Val) ref.Val {
		left, right := a.Type(), b.Type()
		if left == types.IntType && right == types.IntType {
			return std(a, b)
		}
		switch {
		case left == DecimalType || right == DecimalType:
			if is == nil {
				return computeDecimals(operator, a, b, std)
			}
			c, ok := compareNumbers(a, b)
			if !ok && !isNaN(a) && !isNaN(b) {
				return types.MaybeNoSuchOverloadErr(b)
			}
			return types.Bool(ok && is(c))
		case is != nil && (isNaN(a) || isNaN(b)):
			return types.False // as IEEE 754 has it
		case left == types.TimestampType && right == types.StringType:
			return types.NewErr("a timestamp and a string cannot be compared: write timestamp(\"2024-01-31T00:00:00Z\") for the time")
		case left == types.TimestampType && right == types.DurationType:
			a = noDate(a)
		case left == types.DurationType && right == types.TimestampType:
			b = noDate(b)
		case left != right && is == nil:
			a, b = promote(a, b)
		}
		if !a.Type().HasTrait(trait) {
			return types.MaybeNoSuchOverloadErr(a)
		}
		return std(a, b)
	}
}

func isNaN(v ref.Val) bool {
	f, ok := v.(types.Double)
	return ok && math.IsNaN(float64(f))
}

// noDate makes a local time of a date: a time of day may be added to it.
func noDate(v ref.Val) ref.Val {
	if t := v.(types.Timestamp); t.Location() == Date {
		return types.Timestamp{Time: t.In(Local)}
	}
	return v
}

// promote converts numbers of two types to one.
func promote(a, b ref.Val) (ref.Val, ref.Val) {
	x, xok := asFloat(a)
	y, yok := asFloat(b)
	if !xok || !yok {
		return a, b
	}
	if a.Type() == types.DoubleType || b.Type() == types.DoubleType {
		return types.Double(x), types.Double(y)
	}
	for _, v := range []ref.Val{a, b} { // one is an Int, the other a Uint
		if n, ok := v.(types.Uint); ok && n > math.MaxInt64 {
			return a.ConvertToType(types.UintType), b.ConvertToType(types.UintType)
		}
	}
	return a.ConvertToType(types.IntType), b.ConvertToType(types.IntType)
}

// computeDecimals computes with two numbers of which one is a decimal.
func computeDecimals(operator string, a, b ref.Val, std func(a, b ref.Val) ref.Val) ref.Val {
	x, xok := Exact(a.Value())
	y, yok := Exact(b.Value())
	if !xok || !yok || operator == operators.Divide {
		f, fok := asFloat(a)
		g, gok := asFloat(b)
		if !fok || !gok || operator == operators.Modulo {
			return types.MaybeNoSuchOverloadErr(b)
		}
		if operator == operators.Divide && g == 0 && xok && yok {
			return types.NewErr("division by zero")
		}
		return std(types.Double(f), types.Double(g))
	}
	var result Decimal
	switch operator {
	case operators.Add:
		result = Decimal{x.number.Add(y.number)}
	case operators.Subtract:
		result = Decimal{x.number.Sub(y.number)}
	case operators.Multiply:
		result = Decimal{x.number.Mul(y.number)}
	default:
		return types.MaybeNoSuchOverloadErr(b)
	}
	if result.Digits() > MaxDigits || result.Scale() > MaxDigits {
		return types.NewErr("the result has more than %d digits", MaxDigits)
	}
	return result
}

// Equal is types.Equal for values of rows.
func Equal(a, b ref.Val) ref.Val {
	if d, ok := b.(Decimal); ok {
		return d.Equal(a)
	}
	return types.Equal(a, b)
}
