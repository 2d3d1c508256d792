package expr

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"

	"github.com/sluiceml/sluice/dsl/advice"
	"github.com/sluiceml/sluice/dsl/spec"
)

// ObjectAt returns the object type that a path from one of the names leads to, or nil.
func (ts *TypeSystem) ObjectAt(names map[string]*cel.Type, path []Segment) *ObjectType {
	t := (&explainer{ts: ts, vars: names}).typeAt(path)
	if t == nil {
		return nil
	}
	return ts.ObjectType(t)
}

// typeAt returns the type of what a path leads to, or nil.
func (x *explainer) typeAt(path []Segment) *cel.Type {
	t := x.vars[path[0].Name]
	if bound := x.bound[path[0].Name]; bound != nil {
		t = bound
	}
	t = present(t)
	for _, seg := range path[1:] {
		switch {
		case t == nil:
			return nil
		case t.Kind() == types.MapKind:
			t = t.Parameters()[1]
		default:
			o := x.ts.ObjectType(t)
			if o == nil {
				return nil
			}
			t = o.Fields[seg.Name]
		}
		t = present(t)
	}
	return t
}

// bind finds the types of the variables of comprehensions: the elements of the list or the keys of the map they go over.
func (x *explainer) bind() {
	x.bound = map[string]*cel.Type{}
	ast.PreOrderVisit(x.e.tree.Expr(), ast.NewExprVisitor(func(n ast.Expr) {
		if n.Kind() != ast.ComprehensionKind {
			return
		}
		over := n.AsComprehension()
		if over.AccuVar() == boundList {
			x.bound[boundList] = x.typeOf(over.AccuInit())
		}
		if t := x.typeOf(over.IterRange()); t != nil && t.Kind() == types.ListKind {
			x.bound[over.IterVar()] = t.Parameters()[0]
		}
	}))
}

// instanceHint says why a name of instances is none here; empty for other names.
func (x *explainer) instanceHint(name string) string {
	hint := map[string]string{
		"matrix": "only a step with a `matrix` has it", "item": "only a step with a `foreach` has it",
		"index":    "only a step with a `matrix`, a `foreach` or a `repeat` has it",
		"previous": "only a step with a `repeat` has it",
	}[name]
	if steps := x.ts.Lookup("steps"); hint != "" && steps != nil && steps.Hint != "" {
		return steps.Hint
	}
	if hint != "" && x.e.Scope == ScopeOnce {
		hint = "`when`, `matrix` and `foreach` are evaluated once, before the instances exist"
		if name == "matrix" {
			hint += "; leave a combination out with `exclude` in the matrix"
		}
	}
	return hint
}

// typeOf returns the type of an expression that the checker did not come to, or nil: a path, an element of a list, the best of one.
func (x *explainer) typeOf(n ast.Expr) *cel.Type {
	if n == nil {
		return nil
	}
	if path, ok := pathOf(n); ok {
		return x.typeAt(path)
	}
	var of ast.Expr
	switch {
	case n.Kind() == ast.ComprehensionKind && n.AsComprehension().AccuVar() == boundList:
		of = n.AsComprehension().AccuInit()
	case n.Kind() == ast.CallKind && n.AsCall().FunctionName() == operators.Index:
		of = n.AsCall().Args()[0]
	default:
		return nil
	}
	if t := x.typeOf(of); t != nil && t.Kind() == types.ListKind {
		return t.Parameters()[0]
	}
	return nil
}

// notInstance explains a field of what has none, and a walk over what is no list: both mostly come of instances.
func notInstance(message, field string) (code, text, hint string, ok bool) {
	if m := noFields.FindStringSubmatch(message); m != nil {
		if slices.Contains([]string{"length", "len", "size", "count"}, field) {
			return "type", "`." + field + "` is not a field", "write .size()", true
		}
		if strings.HasPrefix(m[1], "list(") {
			return "instances", "this is a list, which has elements but no fields", "pick one with .best(x, x.metrics.NAME), or use all with .map(x, x.NAME)", true
		}
		return "type", fmt.Sprintf("this is %s, which has no fields", spec.Article(strings.TrimPrefix(m[1], objectPrefix))), advice.Field(m[1]), true
	}
	switch iterated := strings.Contains(message, "cannot be range of a comprehension"); {
	case iterated && strings.Contains(message, "'optional_type("):
		return "type", "this may be absent, so it cannot be iterated over", "write .optMap(list, list.best(x, x.NAME)), or .orValue([]) before it", true
	case iterated:
		return "type", "this is not a list, so it cannot be iterated over", "only a step with a `matrix` or a `foreach` is a list of instances", true
	}
	return "", "", "", false
}

var noFields = regexp.MustCompile(`^type '(.*)' does not support field selection`)
