package expr

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/overloads"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"

	"github.com/sluiceml/sluice/dsl/document"
	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/suggest"
)

// term is a part of a condition: a value that is compared with constants. A bool that is compared with nothing is compared with true.
type term struct {
	at       ast.Expr
	of       ast.Expr
	op       string
	with     []ref.Val
	withText []ast.Expr // where they are written
}

// opposite of a comparison, and the comparison with its sides exchanged.
var (
	opposite = map[string]string{
		operators.Equals: operators.NotEquals, operators.NotEquals: operators.Equals, operators.Less: operators.GreaterEquals, operators.GreaterEquals: operators.Less,
		operators.Greater: operators.LessEquals, operators.LessEquals: operators.Greater, operators.In: notIn, notIn: operators.In,
	}
	exchanged = map[string]string{
		operators.Equals: operators.Equals, operators.NotEquals: operators.NotEquals, operators.Less: operators.Greater, operators.Greater: operators.Less,
		operators.LessEquals: operators.GreaterEquals, operators.GreaterEquals: operators.LessEquals,
	}
)

const notIn = "!in"

// checkPossible reports conditions that are the same in every run: that compare with what a value never is, contradict themselves, or leave
// nothing out.
func (e *Expression) checkPossible(src *document.Source, ts *TypeSystem) {
	inner, told := map[int64]bool{}, map[int64]bool{}
	switch whole := e.tree.Expr(); {
	case (e.Scope == ScopeGate || e.Scope == ScopeUntil) && isLiteral(whole, types.True):
		e.warn(src, whole, "condition", "write a condition over what the step outputs", "this is always true, whatever the step outputs")
	case e.Scope == ScopeRow && e.Expected.Type == goBool && whole.Kind() == ast.LiteralKind:
		e.warn(src, whole, "condition", "for example row.n > 0", fmt.Sprintf("this is always %v, whatever the row has", whole.AsLiteral().Value()))
	}
	ast.PreOrderVisit(e.tree.Expr(), ast.NewExprVisitor(func(x ast.Expr) {
		if x.Kind() != ast.CallKind {
			return
		}
		op := x.AsCall().FunctionName()
		if op != operators.LogicalAnd && op != operators.LogicalOr {
			e.checkComparison(src, ts, x, told)
			return
		}
		if inner[x.ID()] {
			return
		}
		e.checkChain(src, ts, op, chain(x, op, inner), told)
	}))
}

// Exclude reports whether two conditions over what is the same in the whole of a run are never both true.
func Exclude(a, b *Expression) bool {
	var parts []term
	for _, e := range []*Expression{a, b} {
		if e == nil || !e.OK || slices.ContainsFunc(e.Refs, func(r Reference) bool { return r.Path[0].Name != "params" && r.Path[0].Name != "steps" }) {
			return false
		}
		for _, x := range chain(e.tree.Expr(), operators.LogicalAnd, map[int64]bool{}) {
			if t, ok := termOf(x); ok && keyOf(t.of) != "" {
				parts = append(parts, t)
			}
		}
	}
	return slices.ContainsFunc(parts, func(t term) bool {
		same := slices.DeleteFunc(slices.Clone(parts), func(other term) bool { return keyOf(other.of) != keyOf(t.of) })
		return len(same) > 1 && impossible(same)
	})
}

// chain lists what is joined by an operator, however it is put in parentheses.
func chain(x ast.Expr, op string, inner map[int64]bool) []ast.Expr {
	if x.Kind() != ast.CallKind || x.AsCall().FunctionName() != op {
		return []ast.Expr{x}
	}
	inner[x.ID()] = true
	return append(chain(x.AsCall().Args()[0], op, inner), chain(x.AsCall().Args()[1], op, inner)...)
}

// checkChain reports parts of a condition that cannot be true together, or of which one always is. What is told of a part is not told again.
func (e *Expression) checkChain(src *document.Source, ts *TypeSystem, op string, parts []ast.Expr, told map[int64]bool) {
	terms := map[string][]term{}
	for _, x := range parts {
		switch {
		case op == operators.LogicalOr && isLiteral(x, types.True):
			e.warn(src, x, "condition", "remove it", "`|| true` makes the condition always true")
			return
		case op == operators.LogicalAnd && isLiteral(x, types.False):
			e.warn(src, x, "condition", "remove it", "`&& false` makes the condition always false")
			return
		}
		if e.checkComparison(src, ts, x, told) {
			return
		}
		t, ok := termOf(x)
		key := keyOf(t.of)
		if !ok || key == "" {
			continue
		}
		if op == operators.LogicalOr {
			t.op = opposite[t.op]
		}
		terms[key] = append(terms[key], t)
		together := terms[key]
		if op == operators.LogicalAnd {
			together = append(e.known(ts, t.of).terms(), together...)
		}
		switch {
		case len(terms[key]) < 2 || !impossible(together):
		case op == operators.LogicalAnd:
			e.Report(src, e.offset(x.ID()), "condition", "write `||` if one of them is enough", "this contradicts what comes before it: the condition is always false")
			return
		default:
			e.warn(src, x, "condition", "write `&&` if all of them must hold", "this or what comes before it always holds: the condition is always true")
			return
		}
	}
}

// checkComparison reports a comparison that always has the same result. It reports whether there was something to tell.
func (e *Expression) checkComparison(src *document.Source, ts *TypeSystem, x ast.Expr, told map[int64]bool) bool {
	if x.Kind() != ast.CallKind {
		return false
	}
	call := x.AsCall()
	if call.FunctionName() == operators.LogicalNot {
		return e.checkComparison(src, ts, call.Args()[0], told)
	}
	if done, ok := told[x.ID()]; ok {
		return done
	}
	before := len(src.Findings)
	switch op := call.FunctionName(); {
	case exchanged[op] != "":
		e.checkSides(src, x, op, call.Args()[0], call.Args()[1])
		fallthrough
	case op == operators.In:
		if t, ok := termOf(x); ok && len(src.Findings) == before && len(t.withText) > 0 {
			e.checkRange(src, t, e.known(ts, t.of))
		}
	case call.IsMemberFunction() && len(call.Args()) == 1:
		e.checkText(src, call, e.known(ts, call.Target()))
	}
	told[x.ID()] = len(src.Findings) > before
	return told[x.ID()]
}

// checkSides reports a comparison of constants, and one of a value with itself. A double may be a NaN, which is not equal to itself.
func (e *Expression) checkSides(src *document.Source, x ast.Expr, op string, left, right ast.Expr) {
	equality := op == operators.Equals || op == operators.NotEquals
	a, isA := constant(left)
	b, isB := constant(right)
	switch {
	case isA && isB && (strings.Contains(e.Text, "{{") || strings.Contains(e.Text, "${")): // of another system, which is told
	case isA && isB:
		e.warn(src, x, "condition", "compare with a value that is read", fmt.Sprintf("this compares two constants, and is always %t", (term{op: op, with: []ref.Val{b}}).holds(a)))
	case keyOf(left) == "" || keyOf(left) != keyOf(right):
	case equality && slices.Contains([]types.Kind{types.DoubleKind, types.DynKind}, e.tree.GetType(left.ID()).Kind()):
	default:
		always := op == operators.Equals || op == operators.LessEquals || op == operators.GreaterEquals
		e.Report(src, e.offset(x.ID()), "condition", "", fmt.Sprintf("this compares a value with itself, and is always %t", always))
	}
}

// checkRange reports a comparison with what a value never is, or whose result its bounds say.
func (e *Expression) checkRange(src *document.Source, t term, r Range) {
	if r.Only != nil {
		allowed := r.Only
		if t.op != operators.Equals {
			allowed = slices.Concat(r.Only, r.Else)
		}
		for i, v := range t.with {
			if text, ok := v.(types.String); ok && !slices.Contains(allowed, string(text)) && (text != "" || t.op != operators.NotEquals) {
				what := "never " + strconv.Quote(string(text))
				if slices.Contains(r.Else, string(text)) {
					what += " here"
				}
				e.reportNever(src, t.of, t.withText[i], "enum", what, suggest.Hint(string(text), r.Only))
				return
			}
		}
		return
	}
	if text, ok := t.with[0].(types.String); ok && r.Pattern != "" && t.op == operators.Equals {
		if re, err := regexp.Compile("^(?:" + r.Pattern + ")$"); err == nil && !re.MatchString(string(text)) {
			e.reportNever(src, t.of, t.withText[0], "enum", "never "+strconv.Quote(string(text)), "it matches "+r.Pattern)
		}
	}
	bounds := r.terms()
	switch against := append(slices.Clone(bounds), t); {
	case len(bounds) == 0:
	case impossible(against):
		e.reportNever(src, t.of, t.withText[0], "condition", r.String()+": this is always false", percentHint(r, t.with[0]))
	case !r.Declared && impossible(append(bounds, term{op: opposite[t.op], with: t.with})):
		e.warn(src, t.at, "condition", percentHint(r, t.with[0]), "this is always true: the value is "+r.String())
	}
}

// percentHint is a hint for a share that is compared with a percentage.
func percentHint(r Range, v ref.Val) string {
	n, ok := v.ConvertToType(types.DoubleType).(types.Double)
	if !ok || n <= 1 || n > 100 || r.Max == nil || *r.Max != *share.Max {
		return ""
	}
	return "for " + spec.FormatDouble(float64(n)) + "% write " + spec.FormatDouble(float64(n)/100)
}

func (e *Expression) reportNever(src *document.Source, of, at ast.Expr, code, what, hint string) {
	name := "this value"
	if path, ok := pathOf(of); ok {
		name = "`" + Reference{Path: path}.String() + "`"
	}
	e.Report(src, e.offset(at.ID()), code, hint, name+" is "+what)
}

// checkText reports a search for a constant in a text that is one of a few, and none that has it.
func (e *Expression) checkText(src *document.Source, call ast.CallExpr, r Range) {
	with, ok := constant(call.Args()[0])
	text, isText := with.(types.String)
	if !ok || !isText || r.Only == nil {
		return
	}
	matches := map[string]func(value, text string) bool{
		overloads.StartsWith: strings.HasPrefix, overloads.EndsWith: strings.HasSuffix, overloads.Contains: strings.Contains,
		overloads.Matches: func(value, text string) bool {
			re, err := regexp.Compile(text)
			return err != nil || re.MatchString(value)
		},
	}[call.FunctionName()]
	if matches == nil || slices.ContainsFunc(slices.Concat(r.Only, r.Else), func(v string) bool { return matches(v, string(text)) }) {
		return
	}
	e.reportNever(src, call.Target(), call.Args()[0], "enum", "never such a text", "it is one of "+strings.Join(r.Only, ", "))
}

// termOf reads a part of a condition; false where it has no value that constants are compared with.
func termOf(x ast.Expr) (term, bool) {
	if x.Kind() == ast.CallKind {
		call := x.AsCall()
		args := call.Args()
		switch op := call.FunctionName(); {
		case op == operators.LogicalNot:
			t, ok := termOf(args[0])
			t.at, t.op = x, opposite[t.op]
			return t, ok
		case op == operators.In && args[1].Kind() == ast.ListKind:
			t := term{at: x, of: args[0], op: op, withText: args[1].AsList().Elements()}
			for _, element := range t.withText {
				v, ok := constant(element)
				if !ok {
					return term{}, false
				}
				t.with = append(t.with, v)
			}
			return t, true
		case exchanged[op] != "":
			if v, ok := constant(args[1]); ok {
				return term{at: x, of: args[0], op: op, with: []ref.Val{v}, withText: args[1:]}, true
			}
			if v, ok := constant(args[0]); ok {
				return term{at: x, of: args[1], op: exchanged[op], with: []ref.Val{v}, withText: args[:1]}, true
			}
		}
	}
	return term{at: x, of: x, op: operators.Equals, with: []ref.Val{types.True}}, true
}

// constant is the value of a literal, or of one that is converted.
func constant(x ast.Expr) (ref.Val, bool) {
	switch x.Kind() {
	case ast.LiteralKind:
		return x.AsLiteral(), true
	case ast.CallKind:
		to := map[string]ref.Type{
			overloads.TypeConvertDouble: types.DoubleType, overloads.TypeConvertInt: types.IntType,
			overloads.TypeConvertDuration: types.DurationType, overloads.TypeConvertTimestamp: types.TimestampType,
		}[x.AsCall().FunctionName()]
		if args := x.AsCall().Args(); to != nil && len(args) == 1 && args[0].Kind() == ast.LiteralKind {
			v := args[0].AsLiteral().ConvertToType(to)
			return v, !types.IsError(v)
		}
	}
	return nil, false
}

func isLiteral(x ast.Expr, v ref.Val) bool { return x.Kind() == ast.LiteralKind && x.AsLiteral() == v }

// impossible reports whether no value has all of the terms.
func impossible(terms []term) bool {
	var low, high *term
	for _, t := range terms {
		switch t.op {
		case operators.Equals, operators.In:
			return !slices.ContainsFunc(t.with, func(v ref.Val) bool {
				return !slices.ContainsFunc(terms, func(other term) bool { return !other.holds(v) })
			})
		case operators.Greater, operators.GreaterEquals:
			if low == nil || !low.within(t) {
				low = &t
			}
		case operators.Less, operators.LessEquals:
			if high == nil || !high.within(t) {
				high = &t
			}
		}
	}
	return low != nil && high != nil && !low.meets(*high)
}

// within reports whether a bound is at least as narrow as another in the same direction.
func (t term) within(other term) bool {
	c, ok := compare(t.with[0], other.with[0])
	strict := t.op == operators.Greater || t.op == operators.Less
	if t.op == operators.Less || t.op == operators.LessEquals {
		c = -c
	}
	return !ok || c > 0 || c == 0 && strict
}

// meets reports whether there is a value between a lower bound and an upper one.
func (t term) meets(high term) bool {
	c, ok := compare(t.with[0], high.with[0])
	return !ok || c < 0 || c == 0 && t.op == operators.GreaterEquals && high.op == operators.LessEquals
}

// holds reports whether a value has a term, or whether it has is not known.
func (t term) holds(v ref.Val) bool {
	isIn := func() bool {
		return slices.ContainsFunc(t.with, func(w ref.Val) bool { return types.Equal(v, w) == types.True })
	}
	switch t.op {
	case operators.Equals, operators.In:
		return isIn()
	case operators.NotEquals, notIn:
		return !isIn()
	}
	c, ok := compare(v, t.with[0])
	switch t.op {
	case operators.Less:
		return !ok || c < 0
	case operators.LessEquals:
		return !ok || c <= 0
	case operators.Greater:
		return !ok || c > 0
	}
	return !ok || c >= 0
}

func compare(a, b ref.Val) (int, bool) {
	comparer, ok := a.(traits.Comparer)
	if !ok {
		return 0, false
	}
	c, ok := comparer.Compare(b).(types.Int)
	return cmp.Compare(c, 0), ok
}

// keyOf is a text that two parts of a condition share if they have the same value; empty where that is not known.
func keyOf(x ast.Expr) string {
	if x == nil {
		return ""
	}
	var parts []ast.Expr
	var name string
	switch x.Kind() {
	case ast.IdentKind:
		return x.AsIdent()
	case ast.LiteralKind:
		return fmt.Sprintf("%T %q", x.AsLiteral(), fmt.Sprint(x.AsLiteral().Value()))
	case ast.SelectKind:
		name, parts = fmt.Sprint(x.AsSelect().FieldName(), x.AsSelect().IsTestOnly()), []ast.Expr{x.AsSelect().Operand()}
	case ast.CallKind:
		name, parts = x.AsCall().FunctionName(), x.AsCall().Args()
		if x.AsCall().IsMemberFunction() {
			parts = append([]ast.Expr{x.AsCall().Target()}, parts...)
		}
	default:
		return ""
	}
	for _, part := range parts {
		key := keyOf(part)
		if key == "" {
			return ""
		}
		name += "(" + key + ")"
	}
	return name
}
