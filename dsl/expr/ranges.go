package expr

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"

	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/overloads"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"

	"github.com/sluiceml/sluice/dsl/spec"
)

// Range is what is known of the values of a field beside their type.
type Range struct {
	Only     []string // the texts that it may be; nil where it may be any
	Else     []string // the texts that it may be in other places, and so be compared with here
	Min, Max *float64
	Pattern  string // that the whole of a text has
	Declared bool   // by the author of the pipeline, who may well check it again
}

// Within is the range between two numbers.
func Within(low, high float64) Range { return Range{Min: &low, Max: &high} }

var notNegative = Range{Min: new(float64)}

var share = Within(0, 1)

// partsOfTime are the functions that read a part of a timestamp. Months and days of a week count from 0, as in JavaScript.
var partsOfTime = map[string]Range{
	overloads.TimeGetMonth: Within(0, 11), overloads.TimeGetDayOfWeek: Within(0, 6), overloads.TimeGetDate: Within(1, 31), overloads.TimeGetDayOfMonth: Within(0, 30),
	overloads.TimeGetDayOfYear: Within(0, 365), overloads.TimeGetHours: Within(0, 23), overloads.TimeGetMinutes: Within(0, 59), overloads.TimeGetSeconds: Within(0, 59),
}

// known is what is known of the values of an operand.
func (e *Expression) known(ts *TypeSystem, x ast.Expr) Range {
	for _, r := range e.Refs {
		if known, ok := e.Ranges[r.String()]; ok && r.id == x.ID() {
			return known
		}
	}
	switch x.Kind() {
	case ast.SelectKind:
		if !x.AsSelect().IsTestOnly() {
			return e.rangeOf(ts, x.AsSelect().Operand(), x.AsSelect().FieldName())
		}
	case ast.CallKind:
		call := x.AsCall()
		switch name := call.FunctionName(); {
		case name == operators.OptSelect:
			field, _ := call.Args()[1].AsLiteral().(types.String)
			return e.rangeOf(ts, call.Args()[0], string(field))
		case name == "orValue":
			r := e.known(ts, call.Target())
			if v, ok := constant(call.Args()[0]); ok && r.Only != nil {
				return Range{Only: append(slices.Clone(r.Only), fmt.Sprint(v.Value())), Else: r.Else}
			} else if ok && !slices.ContainsFunc(r.terms(), func(t term) bool { return !t.holds(v) }) {
				return r
			}
		case name == overloads.Size:
			return notNegative
		case call.IsMemberFunction() && e.tree.GetType(call.Target().ID()).Kind() == types.TimestampKind:
			return partsOfTime[name]
		}
	}
	return Range{}
}

// rangeOf is what is known of the values of a field of an operand, which may be an optional.
func (e *Expression) rangeOf(ts *TypeSystem, of ast.Expr, field string) Range {
	o := ts.ObjectType(present(e.tree.GetType(of.ID())))
	if o == nil {
		return Range{}
	}
	if path, ok := pathOf(of); ok && (path[0].Name == "last" || path[0].Name == "serving") {
		return Range{Min: o.Ranges[field].Min, Max: o.Ranges[field].Max} // an earlier version of the pipeline had other texts
	}
	return o.Ranges[field]
}

// terms are what a range says, as parts of a condition.
func (r Range) terms() (all []term) {
	if r.Only != nil {
		t := term{op: operators.In}
		for _, v := range r.Only {
			t.with = append(t.with, types.String(v))
		}
		all = append(all, t)
	}
	if r.Min != nil {
		all = append(all, term{op: operators.GreaterEquals, with: []ref.Val{types.Double(*r.Min)}})
	}
	if r.Max != nil {
		all = append(all, term{op: operators.LessEquals, with: []ref.Val{types.Double(*r.Max)}})
	}
	return all
}

// String says what the bounds are.
func (r Range) String() string {
	switch {
	case r.Min != nil && r.Max != nil && *r.Min == *r.Max:
		return spec.FormatDouble(*r.Min)
	case r.Min != nil && r.Max != nil:
		return "between " + spec.FormatDouble(*r.Min) + " and " + spec.FormatDouble(*r.Max)
	case r.Min != nil:
		return "at least " + spec.FormatDouble(*r.Min)
	}
	return "at most " + spec.FormatDouble(*r.Max)
}

// StructRanges are what is known of the values of the fields of a Go struct: its rules, and that a count is not negative.
func StructRanges(t reflect.Type) map[string]Range {
	ranges := map[string]Range{}
	for _, f := range spec.KeysOf(t) {
		r := Range{Only: f.Rules.Enum, Min: f.Rules.Min, Max: f.Rules.Max}
		if isInt(f.Type) {
			r.Min = cmp.Or(r.Min, new(float64))
		}
		ranges[f.Name] = r
	}
	return ranges
}
