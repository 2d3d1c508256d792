package dsl

import (
	"errors"
	"reflect"

	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/types"
)

// absentError: an expression read what has no value.
type absentError struct {
	field string
	path  string // all of it, where it is known
}

func (e *absentError) Error() string {
	if e.path != "" {
		return "`" + e.path + "` is absent"
	}
	return "`." + e.field + "` is absent"
}

// IsAbsent reports whether an expression could not be evaluated because what it reads has no value: an output of a step that did not
// pass, the best of no instances. A step of on_failure or finally is skipped then.
func IsAbsent(err error) bool {
	var absent *absentError
	return errors.As(err, &absent)
}

// optionalOutputs are the outputs of a step that may be absent although it passed.
func optionalOutputs(spec kindSpec) map[string]bool {
	switch spec := spec.(type) {
	case *Clean:
		return optionalFields(reflect.TypeFor[CleanOutput]())
	case *Train:
		return optionalFields(reflect.TypeFor[TrainOutput]())
	case *Approval:
		optional := map[string]bool{}
		for name, f := range spec.Fields {
			optional[name] = !f.Required && f.Default == nil
		}
		for _, f := range fieldsOf(reflect.TypeFor[ApprovalOutput]()) {
			delete(optional, f.name)
		}
		return optional
	}
	return nil
}

// checkAbsent reports reads of what may be absent that are not optional. It reports whether there were none.
func (e *expression) checkAbsent(src *source, ts *typeSystem) bool {
	ok := true
	ast.PreOrderVisit(e.tree.Expr(), ast.NewExprVisitor(func(x ast.Expr) {
		if x.Kind() != ast.SelectKind || x.AsSelect().IsTestOnly() {
			return
		}
		operand, field := x.AsSelect().Operand(), x.AsSelect().FieldName()
		t := e.tree.GetType(operand.ID())
		if t.Kind() != types.StructKind {
			return
		}
		if o := ts.object(t); o != nil && o.optional[field] {
			ok = false
			e.report(src, e.offset(x.ID())+1, "absent", "write `.?"+field+"`, and end with `.orValue(...)` where a value is needed", "`"+field+"` may be absent")
		}
	}))
	return ok
}
