package dsl

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"

	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/artifact"
)

// objectType is a CEL object whose fields are known: a kind's output struct, a pipeline's steps, a step's metrics.
type objectType struct {
	name   string
	fields map[string]*cel.Type
	// optional fields may be absent, and so are read with .? only.
	optional map[string]bool
	// zeros are the fields that are maps of counts, with what stands in them for a name that nothing was counted under.
	zeros map[string]json.RawMessage
	// what names the fields in messages: "a metric of `fit`".
	what string
	// rest is the type of all other fields, where it is not known which there are; nil when these are all.
	rest *cel.Type
	// code of the diagnostic for a field that is not there.
	code string
}

// typeSystem knows the types of one pipeline. It is CEL's type provider: the fields of an object are those declared and no others.
type typeSystem struct {
	*types.Registry
	objects map[string]*objectType
}

func newTypeSystem() *typeSystem {
	registry, err := types.NewRegistry()
	if err != nil {
		panic(fmt.Sprintf("dsl: %v", err)) // it takes no input that could be wrong
	}
	ts := &typeSystem{Registry: registry, objects: map[string]*objectType{}}
	for _, t := range artifactTypes {
		ts.define(&objectType{name: string(t), code: "output", what: "a property of an artifact", fields: map[string]*cel.Type{
			"type": cel.StringType, "digest": cel.StringType, "bytes": cel.DoubleType, "files": cel.DoubleType,
		}})
	}
	ts.define(&objectType{name: pastCheckpoint, what: "a property of a checkpoint", fields: ts.objects[string(artifact.Checkpoint)].fields})
	return ts
}

// pastCheckpoint is the type of a checkpoint that is told of: it is in a training's history, and may be gone. It is no artifact.
const pastCheckpoint = "past checkpoint"

// isPastCheckpoint reports whether t is that type, of this pipeline or as a child hands it on.
func isPastCheckpoint(t *cel.Type) bool {
	return t.Kind() == types.StructKind && strings.HasSuffix(t.TypeName(), pastCheckpoint)
}

var artifactTypes = []artifact.Type{artifact.Dataset, artifact.Model, artifact.Checkpoint, artifact.Workspace}

func (ts *typeSystem) define(o *objectType) *cel.Type {
	if o.code == "" {
		o.code = "output"
	}
	ts.objects[o.name] = o
	return objectNamed(o.name)
}

// objectPrefix keeps the names of types out of the reach of expressions: `steps.fit` is a value, never a type.
const objectPrefix = "#"

func objectNamed(name string) *cel.Type { return cel.ObjectType(objectPrefix + name) }

// lookup returns the object type of that name, or nil.
func (ts *typeSystem) lookup(name string) *objectType { return ts.objects[name] }

// object returns the object type behind t, or nil.
func (ts *typeSystem) object(t *cel.Type) *objectType { return ts.byName(t.TypeName()) }

func (ts *typeSystem) byName(typeName string) *objectType {
	name, ok := strings.CutPrefix(typeName, objectPrefix)
	if !ok {
		return nil
	}
	return ts.objects[name]
}

// FindStructType implements types.Provider.
func (ts *typeSystem) FindStructType(name string) (*types.Type, bool) {
	if ts.byName(name) != nil {
		return types.NewTypeTypeWithParam(types.NewObjectType(name)), true
	}
	return ts.Registry.FindStructType(name)
}

// FindStructFieldNames implements types.Provider.
func (ts *typeSystem) FindStructFieldNames(name string) ([]string, bool) {
	if o := ts.byName(name); o != nil {
		return slices.Sorted(maps.Keys(o.fields)), true
	}
	return ts.Registry.FindStructFieldNames(name)
}

// FindStructFieldType implements types.Provider.
func (ts *typeSystem) FindStructFieldType(name, fieldName string) (*types.FieldType, bool) {
	o := ts.byName(name)
	if o == nil {
		return ts.Registry.FindStructFieldType(name, fieldName)
	}
	t, ok := o.fields[fieldName]
	if !ok && o.rest != nil {
		t, ok = o.rest, true
	}
	if !ok {
		return nil, false
	}
	return &types.FieldType{
		Type: t,
		IsSet: func(target any) bool {
			v, ok := target.(*object)
			return ok && v.has(fieldName)
		},
		GetFrom: func(target any) (any, error) {
			v, ok := target.(*object)
			if !ok {
				return nil, &absentError{field: fieldName}
			}
			return v.field(fieldName)
		},
	}, true
}

// NewValue implements types.Provider: expressions read objects, they make none.
func (ts *typeSystem) NewValue(name string, fields map[string]ref.Val) ref.Val {
	if o := ts.byName(name); o != nil {
		return types.NewErr("a %s cannot be made in an expression", o.name)
	}
	return ts.Registry.NewValue(name, fields)
}

// goType maps a Go type of an output struct to CEL. Every number is a double: it was measured, and CEL does not multiply an int by
// a double.
func (ts *typeSystem) goType(t reflect.Type, r spec.Rules) *cel.Type {
	switch t {
	case reflect.TypeFor[artifact.Ref]():
		return objectNamed(r.Artifact)
	case reflect.TypeFor[time.Time]():
		return cel.TimestampType
	case spec.DurationType:
		return cel.DurationType
	}
	switch t.Kind() {
	case reflect.Bool:
		return cel.BoolType
	case reflect.String:
		return cel.StringType
	case reflect.Int, reflect.Int64, reflect.Float64:
		return cel.DoubleType
	case reflect.Slice:
		return cel.ListType(ts.goType(t.Elem(), r))
	case reflect.Map:
		return cel.MapType(cel.StringType, ts.goType(t.Elem(), r))
	case reflect.Struct:
		return ts.structType(t)
	case reflect.Pointer: // null where it has no value
		return ts.goType(t.Elem(), r)
	}
	panic(fmt.Sprintf("dsl: an output cannot hold a %s", t)) // a mistake in this package, found by any test
}

func (ts *typeSystem) structType(t reflect.Type) *cel.Type {
	if _, ok := ts.objects[t.Name()]; !ok {
		o := &objectType{name: t.Name(), what: "a field of " + t.Name(), fields: ts.structFields(t), optional: optionalFields(t)}
		ts.define(o)
	}
	return objectNamed(t.Name())
}

func (ts *typeSystem) structFields(t reflect.Type) map[string]*cel.Type {
	fields := map[string]*cel.Type{}
	for _, f := range spec.KeysOf(t) {
		fields[f.Name] = ts.goType(f.Type, f.Rules)
	}
	return fields
}

// optionalFields are those that JSON leaves out when they are empty.
func optionalFields(t reflect.Type) map[string]bool {
	optional := map[string]bool{}
	for _, f := range spec.KeysOf(t) {
		optional[f.Name] = !f.Required
	}
	return optional
}

// object is a value of an objectType. Fields are read when an expression asks for them: get returns nil for what is absent.
type object struct {
	typ *objectType
	get func(name string) (ref.Val, error)
}

// read returns the value of a field, and nil when it is absent.
func (o *object) read(name string) (ref.Val, error) { return o.get(name) }

func (o *object) has(name string) bool {
	v, err := o.get(name)
	return err != nil || v != nil
}

// field returns the value of a field, whose absence is an error.
func (o *object) field(name string) (ref.Val, error) {
	v, err := o.get(name)
	if err == nil && v == nil {
		return nil, &absentError{field: name}
	}
	return v, err
}

// ConvertToNative implements ref.Val.
func (o *object) ConvertToNative(t reflect.Type) (any, error) {
	if t.Kind() == reflect.Interface && reflect.TypeFor[*object]().Implements(t) {
		return o, nil
	}
	return nil, fmt.Errorf("a %s is no %s", o.typ.name, t)
}

// ConvertToType implements ref.Val.
func (o *object) ConvertToType(t ref.Type) ref.Val {
	switch t.TypeName() {
	case objectPrefix + o.typ.name:
		return o
	case types.TypeType.TypeName():
		return objectNamed(o.typ.name)
	}
	return types.NewErr("a %s cannot be converted to %s", o.typ.name, t.TypeName())
}

// Equal implements ref.Val: objects are equal when all their fields are.
func (o *object) Equal(other ref.Val) ref.Val {
	p, ok := other.(*object)
	if !ok || p.typ.name != o.typ.name {
		return types.False
	}
	for name := range o.typ.fields {
		a, errA := o.get(name)
		b, errB := p.get(name)
		if errA != nil || errB != nil {
			return types.NewErr("%s cannot be compared: `.%s` is unreadable", o.typ.name, name)
		}
		if (a == nil) != (b == nil) || a != nil && a.Equal(b) != types.True {
			return types.False
		}
	}
	return types.True
}

// Type implements ref.Val.
func (o *object) Type() ref.Type { return objectNamed(o.typ.name) }

// Value implements ref.Val.
func (o *object) Value() any { return o }

// Get implements traits.Indexer.
func (o *object) Get(index ref.Val) ref.Val {
	name, ok := index.(types.String)
	if !ok {
		return types.MaybeNoSuchOverloadErr(index)
	}
	v, err := o.field(string(name))
	if err != nil {
		return types.WrapErr(err)
	}
	return v
}

// IsSet implements traits.FieldTester.
func (o *object) IsSet(index ref.Val) ref.Val {
	name, ok := index.(types.String)
	return types.Bool(ok && o.has(string(name)))
}

// native turns the object into plain data; what is absent is left out.
func (o *object) native() (any, error) {
	out := map[string]any{}
	for name := range o.typ.fields {
		v, err := o.get(name)
		if err != nil {
			return nil, err
		}
		if v == nil {
			continue
		}
		if out[name], err = jsonValue(v); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// fixed makes an object of ready fields.
func (ts *typeSystem) fixed(name string, fields map[string]ref.Val) *object {
	return ts.lazy(name, func(f string) (ref.Val, error) { return fields[f], nil })
}

// lazy makes an object whose fields are read when an expression asks for them: get returns nil for what is absent.
func (ts *typeSystem) lazy(name string, get func(field string) (ref.Val, error)) *object {
	return &object{typ: ts.objects[name], get: get}
}

// fieldNames are the names of the fields, sorted.
func (o *objectType) fieldNames() []string { return slices.Sorted(maps.Keys(o.fields)) }

// typeName is a CEL type as people say it.
func typeName(t *cel.Type) string {
	switch {
	case isOptional(t):
		return "optional " + typeName(t.Parameters()[0])
	case t.Kind() == types.ListKind:
		return "list of " + typeName(t.Parameters()[0])
	case t.Kind() == types.MapKind:
		return "map of " + typeName(t.Parameters()[1])
	case t.Kind() == types.DynKind:
		return "anything"
	case isPastCheckpoint(t):
		return "record of a checkpoint"
	case t.Kind() == types.StructKind && !isArtifact(strings.TrimPrefix(t.TypeName(), objectPrefix)):
		return "object"
	}
	return strings.TrimPrefix(strings.TrimPrefix(t.String(), "google.protobuf."), objectPrefix)
}

func isOptional(t *cel.Type) bool {
	return t.Kind() == types.OpaqueKind && t.TypeName() == "optional_type"
}
