package expr

import (
	"errors"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"

	"github.com/sluiceml/sluice/dsl/document"
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

// AsNames are the fields as plain names. A name cannot be read with .?, so one that may be absent is an optional itself.
func (o *ObjectType) AsNames() map[string]*cel.Type {
	names := make(map[string]*cel.Type, len(o.Fields))
	for name, t := range o.Fields {
		if o.Optional[name] {
			t = cel.OptionalType(t)
		}
		names[name] = t
	}
	return names
}

// AsName is the value of a field as a plain name.
func (o *Object) AsName(name string) (ref.Val, error) {
	v, err := o.get(name)
	switch {
	case err != nil || !o.typ.Optional[name]:
		return v, err
	case v == nil:
		return types.OptionalNone, nil
	}
	return types.OptionalOf(v), nil
}

// checkAbsent reports reads of what may be absent that are not optional. It reports whether there were none.
func (e *Expression) checkAbsent(src *document.Source, ts *TypeSystem) bool {
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
		if o := ts.ObjectType(t); o != nil && o.Optional[field] {
			ok = false
			e.Report(src, e.offset(x.ID())+1, "absent", "write `.?"+field+"`, and end with `.orValue(...)` where a value is needed", "`"+field+"` may be absent")
		}
	}))
	return ok
}
