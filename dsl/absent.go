package dsl

import (
	"errors"
	"reflect"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"

	"github.com/sluiceml/sluice/dsl/document"
	"github.com/sluiceml/sluice/dsl/spec"
)

// absentError: an expression read what has no value.
type absentError struct {
	field   string
	path    string // all of it, where it is known
	message string // for what is no field
}

func (e *absentError) Error() string {
	switch {
	case e.message != "":
		return e.message
	case e.path != "":
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
func optionalOutputs(sp spec.Spec) map[string]bool {
	switch kind := sp.(type) {
	case *spec.Clean:
		return optionalFields(reflect.TypeFor[spec.CleanOutput]())
	case *spec.Train:
		return optionalFields(reflect.TypeFor[spec.TrainOutput]())
	case *spec.Approval:
		optional := map[string]bool{}
		for name, f := range kind.Fields {
			optional[name] = !f.Required && f.Default == nil
		}
		for _, f := range spec.KeysOf(reflect.TypeFor[spec.ApprovalOutput]()) {
			delete(optional, f.Name)
		}
		return optional
	}
	return nil
}

// asNames are the fields as plain names. A name cannot be read with .?, so one that may be absent is an optional itself.
func (o *objectType) asNames() map[string]*cel.Type {
	names := make(map[string]*cel.Type, len(o.fields))
	for name, t := range o.fields {
		if o.optional[name] {
			t = cel.OptionalType(t)
		}
		names[name] = t
	}
	return names
}

// named is the value of a field as a plain name.
func (o *object) named(name string) (ref.Val, error) {
	v, err := o.get(name)
	switch {
	case err != nil || !o.typ.optional[name]:
		return v, err
	case v == nil:
		return types.OptionalNone, nil
	}
	return types.OptionalOf(v), nil
}

// checkAbsent reports reads of what may be absent that are not optional. It reports whether there were none.
func (e *expression) checkAbsent(src *document.Source, ts *typeSystem) bool {
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
