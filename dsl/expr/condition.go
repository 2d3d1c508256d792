package expr

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/overloads"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"

	"github.com/sluiceml/sluice/dsl/expr/meter"
)

// Holds evaluates a bool expression and returns what its references were.
func (e *Expression) Holds(names cel.Activation) (holds bool, values map[string]any, err error) {
	v, evaluation, err := e.watch(names)
	values = e.seen(evaluation)
	if err != nil {
		return false, values, e.explain(err)
	}
	b, ok := v.(types.Bool)
	if holds = ok && bool(b); holds {
		err = e.ofNone(evaluation)
	}
	return holds && err == nil, values, err
}

// InstanceOf begins the names of the types of instances, before the ID of their step.
const InstanceOf = "instance of "

// ofNone is an error if a condition holds although it looked for something among the instances of a step and there are none, unless it asked how
// many there are, or has its own value for a step that did not pass, as `.orValue([])`.
func (e *Expression) ofNone(in *meter.Evaluation) (err error) {
	instances := func(x ast.Expr) (step string, size ref.Val) {
		t := e.tree.GetType(x.ID())
		v, _ := in.Value(x.ID())
		list, isList := v.(traits.Lister)
		if !isList || t.Kind() != types.ListKind || x.Kind() == ast.ComprehensionKind {
			return "", nil
		}
		step, isInstance := strings.CutPrefix(t.Parameters()[0].TypeName(), objectPrefix+InstanceOf)
		var refs []Reference
		walkReferences(x, map[string]int{}, &refs)
		there := func(r Reference) bool {
			if r.Path[0].Name != "steps" { // `last` may well have had none
				return false
			}
			v, read := in.Value(r.id)
			switch v := v.(type) {
			case types.Bool: // of has()
				return false
			case *types.Optional:
				return v.HasValue()
			}
			return read
		}
		if !isInstance || !slices.ContainsFunc(refs, there) {
			return "", nil
		}
		return step, list.Size()
	}
	asked := false
	ast.PreOrderVisit(e.tree.Expr(), ast.NewExprVisitor(func(x ast.Expr) {
		switch {
		case x.Kind() == ast.ComprehensionKind:
			if step, size := instances(x.AsComprehension().IterRange()); size == types.IntZero && err == nil {
				of := "steps." + step
				err = fmt.Errorf("no instance of `%s` passed, so this would hold without any: write `%s.size() > 0 && ...`, or `%s.size() == 0 || ...` if that is meant", step, of, of)
			}
		case x.Kind() == ast.CallKind && x.AsCall().FunctionName() == overloads.Size:
			call := x.AsCall()
			of := call.Target()
			if !call.IsMemberFunction() {
				of = call.Args()[0]
			}
			_, size := instances(of)
			asked = asked || size != nil
		}
	}))
	if asked {
		return nil
	}
	return err
}

// Reads evaluates an expression and returns its value and those of its references. Other than those of Holds, they are whole.
func (e *Expression) Reads(names cel.Activation) (value any, values map[string]any) {
	v, evaluation, err := e.watch(names)
	if err != nil {
		v = types.WrapErr(err)
	}
	return whole(v), e.collect(evaluation, whole)
}

// seen collects the values that an evaluation had for the expression's references. What was absent says so; what a short circuit
// left alone is left out.
func (e *Expression) seen(in *meter.Evaluation) map[string]any {
	return e.collect(in, func(v ref.Val) any { return bounded(whole(v)) })
}

func (e *Expression) collect(in *meter.Evaluation, show func(ref.Val) any) map[string]any {
	if in == nil {
		return nil
	}
	values := make(map[string]any, len(e.Refs))
	for _, r := range slices.Concat(e.Refs, e.deciding(in)) {
		if v, ok := in.Value(r.id); ok {
			values[r.String()] = show(v)
		}
	}
	return values
}

// deciding is what an `.all` that turned out false read of the element at which it did: CEL ends there.
func (e *Expression) deciding(in *meter.Evaluation) (refs []Reference) {
	ast.PreOrderVisit(e.tree.Expr(), ast.NewExprVisitor(func(x ast.Expr) {
		if v, _ := in.Value(x.ID()); x.Kind() != ast.ComprehensionKind || v != types.False || x.AsComprehension().AccuInit().AsLiteral() != types.True {
			return
		}
		x = x.AsComprehension().LoopStep()
		for x.Kind() == ast.CallKind && x.AsCall().FunctionName() == operators.LogicalAnd { // what it left alone is of an element before
			args := x.AsCall().Args()
			x = args[1]
			if v, _ := in.Value(args[0].ID()); v == types.False {
				x = args[0]
			}
		}
		walkReferences(x, map[string]int{}, &refs)
	}))
	return refs
}

func whole(v ref.Val) any {
	switch v := v.(type) {
	case *types.Optional:
		if !v.HasValue() {
			return "absent"
		}
		return whole(v.GetValue())
	case *types.Err:
		return "absent"
	}
	native, err := JSONValue(v)
	if err != nil {
		return v.Type().TypeName()
	}
	return native
}

// maxShown is how long a value is shown whole, as JSON: what is shown is kept in records and goes through histories.
const maxShown = 1000

// bounded is a value, or what it is where that would be long.
func bounded(native any) any {
	if raw, err := json.Marshal(native); err != nil || len(raw) <= maxShown {
		return native
	}
	switch v := native.(type) {
	case []any:
		return fmt.Sprintf("a list of %d", len(v))
	case map[string]any:
		return fmt.Sprintf("a map of %d", len(v))
	case string:
		return strings.ToValidUTF8(v[:maxShown], "") + "…"
	}
	return native
}
