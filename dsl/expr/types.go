package expr

import (
	"cmp"
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

// ObjectType is a CEL object whose fields are known: a kind's output struct, a pipeline's steps, a step's metrics.
type ObjectType struct {
	Name string
	// Fields that are known; one whose type is nil is not there, whatever Rest says.
	Fields map[string]*cel.Type
	// Optional fields may be absent, and so are read with .? only.
	Optional map[string]bool
	// Zeros are the fields that are maps of counts, with what stands in them for a name that nothing was counted under.
	Zeros map[string]json.RawMessage
	// Ranges are what is known of the values of fields.
	Ranges map[string]Range
	// What names the fields in messages: "a metric of `fit`".
	What string
	// Rest is the type of all other fields, where it is not known which there are; nil when these are all.
	Rest *cel.Type
	// Hint is what to write for a field NAME that is not there, if it is like no other.
	Hint string
	// Code of the diagnostic for a field that is not there.
	Code string
}

// typeOf is the type of a field, or nil when there is none.
func (o *ObjectType) typeOf(name string) *cel.Type {
	if t, known := o.Fields[name]; known {
		return t
	}
	return o.Rest
}

// TypeSystem knows the types of one pipeline. It is CEL's type provider: the fields of an object are those declared and no others.
type TypeSystem struct {
	*types.Registry
	objects map[string]*ObjectType
}

// NewTypeSystem makes a type system that knows artifacts.
func NewTypeSystem() *TypeSystem {
	registry, err := types.NewRegistry()
	if err != nil {
		panic(fmt.Sprintf("dsl: %v", err)) // it takes no input that could be wrong
	}
	ts := &TypeSystem{Registry: registry, objects: map[string]*ObjectType{}}
	for _, t := range ArtifactTypes {
		ts.Define(&ObjectType{Name: string(t), Code: "output", What: "a property of an artifact", Fields: map[string]*cel.Type{
			"type": cel.StringType, "digest": cel.StringType, "bytes": cel.DoubleType, "files": cel.DoubleType,
		}})
	}
	ts.Define(&ObjectType{Name: pastCheckpoint, What: "a property of a checkpoint", Fields: ts.objects[string(artifact.Checkpoint)].Fields})
	return ts
}

// pastCheckpoint is the type of a checkpoint that is told of: it is in a training's history, and may be gone. It is no artifact.
const pastCheckpoint = "past checkpoint"

// isPastCheckpoint reports whether t is that type, of this pipeline or as a child hands it on.
func isPastCheckpoint(t *cel.Type) bool {
	return t.Kind() == types.StructKind && strings.HasSuffix(t.TypeName(), pastCheckpoint)
}

// ArtifactTypes are the types that artifacts have in expressions, by name.
var ArtifactTypes = []artifact.Type{artifact.Dataset, artifact.Model, artifact.Checkpoint, artifact.Workspace}

// Define adds an object type, or replaces the one of that name, and returns it as CEL knows it.
func (ts *TypeSystem) Define(o *ObjectType) *cel.Type {
	o.Code = cmp.Or(o.Code, "output")
	ts.objects[o.Name] = o
	return ObjectNamed(o.Name)
}

// objectPrefix keeps the names of types out of the reach of expressions: `steps.fit` is a value, never a type.
const objectPrefix = "#"

// ObjectNamed is the type of that name, which may be defined later.
func ObjectNamed(name string) *cel.Type { return cel.ObjectType(objectPrefix + name) }

// Lookup returns the object type of that name, or nil.
func (ts *TypeSystem) Lookup(name string) *ObjectType { return ts.objects[name] }

// ObjectType returns the object type behind t, or nil.
func (ts *TypeSystem) ObjectType(t *cel.Type) *ObjectType { return ts.byName(t.TypeName()) }

func (ts *TypeSystem) byName(typeName string) *ObjectType {
	name, ok := strings.CutPrefix(typeName, objectPrefix)
	if !ok {
		return nil
	}
	return ts.objects[name]
}

// FindStructType implements types.Provider.
func (ts *TypeSystem) FindStructType(name string) (*types.Type, bool) {
	if ts.byName(name) != nil {
		return types.NewTypeTypeWithParam(types.NewObjectType(name)), true
	}
	return ts.Registry.FindStructType(name)
}

// FindStructFieldNames implements types.Provider.
func (ts *TypeSystem) FindStructFieldNames(name string) ([]string, bool) {
	if o := ts.byName(name); o != nil {
		return o.FieldNames(), true
	}
	return ts.Registry.FindStructFieldNames(name)
}

// FindStructFieldType implements types.Provider.
func (ts *TypeSystem) FindStructFieldType(name, fieldName string) (*types.FieldType, bool) {
	o := ts.byName(name)
	if o == nil {
		return ts.Registry.FindStructFieldType(name, fieldName)
	}
	t := o.typeOf(fieldName)
	if t == nil {
		return nil, false
	}
	return &types.FieldType{
		Type: t,
		IsSet: func(target any) bool {
			v, ok := target.(*Object)
			return ok && v.has(fieldName)
		},
		GetFrom: func(target any) (any, error) {
			v, ok := target.(*Object)
			if !ok {
				return nil, &absentError{field: fieldName}
			}
			return v.Field(fieldName)
		},
	}, true
}

// NewValue implements types.Provider: expressions read objects, they make none.
func (ts *TypeSystem) NewValue(name string, fields map[string]ref.Val) ref.Val {
	if o := ts.byName(name); o != nil {
		return types.NewErr("a %s cannot be created in an expression", o.Name)
	}
	return ts.Registry.NewValue(name, fields)
}

// goType maps a Go type of an output struct to CEL. Every number is a double: it was measured, and CEL does not multiply an int by
// a double.
func (ts *TypeSystem) goType(t reflect.Type, r spec.Rules) *cel.Type {
	switch t {
	case reflect.TypeFor[artifact.Ref]():
		return ObjectNamed(r.Artifact)
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
		return ts.StructType(t)
	case reflect.Pointer: // null where it has no value
		return ts.goType(t.Elem(), r)
	}
	panic(fmt.Sprintf("dsl: an output cannot hold a %s", t)) // a mistake in this package, found by any test
}

// StructType is the type of a Go struct of outputs.
func (ts *TypeSystem) StructType(t reflect.Type) *cel.Type {
	if _, ok := ts.objects[t.Name()]; !ok {
		o := &ObjectType{Name: t.Name(), What: "a field of " + t.Name(), Fields: ts.StructFields(t), Optional: OptionalFields(t), Ranges: StructRanges(t)}
		ts.Define(o)
	}
	return ObjectNamed(t.Name())
}

// StructFields are the types of the fields of a Go struct, by their names in JSON.
func (ts *TypeSystem) StructFields(t reflect.Type) map[string]*cel.Type {
	fields := map[string]*cel.Type{}
	for _, f := range spec.KeysOf(t) {
		fields[f.Name] = ts.goType(f.Type, f.Rules)
	}
	return fields
}

// OptionalFields are those that JSON leaves out when they are empty.
func OptionalFields(t reflect.Type) map[string]bool {
	optional := map[string]bool{}
	for _, f := range spec.KeysOf(t) {
		optional[f.Name] = !f.Required
	}
	return optional
}

// Object is a value of an ObjectType. Fields are read when an expression asks for them: get returns nil for what is absent.
type Object struct {
	typ *ObjectType
	get func(name string) (ref.Val, error)
}

// Read returns the value of a field, and nil when it is absent.
func (o *Object) Read(name string) (ref.Val, error) { return o.get(name) }

func (o *Object) has(name string) bool {
	v, err := o.get(name)
	return err != nil || v != nil
}

// Field returns the value of a field, whose absence is an error.
func (o *Object) Field(name string) (ref.Val, error) {
	v, err := o.get(name)
	if err == nil && v == nil {
		return nil, &absentError{field: name}
	}
	return v, err
}

// ConvertToNative implements ref.Val.
func (o *Object) ConvertToNative(t reflect.Type) (any, error) {
	if t.Kind() == reflect.Interface && reflect.TypeFor[*Object]().Implements(t) {
		return o, nil
	}
	return nil, fmt.Errorf("a %s is not a %s", o.typ.Name, t)
}

// ConvertToType implements ref.Val.
func (o *Object) ConvertToType(t ref.Type) ref.Val {
	switch t.TypeName() {
	case objectPrefix + o.typ.Name:
		return o
	case types.TypeType.TypeName():
		return ObjectNamed(o.typ.Name)
	}
	return types.NewErr("a %s cannot be converted to %s", o.typ.Name, t.TypeName())
}

// Equal implements ref.Val: objects are equal when all their fields are.
func (o *Object) Equal(other ref.Val) ref.Val {
	p, ok := other.(*Object)
	if !ok || p.typ.Name != o.typ.Name {
		return types.False
	}
	for name := range o.typ.Fields {
		a, errA := o.get(name)
		b, errB := p.get(name)
		if errA != nil || errB != nil {
			return types.NewErr("%s cannot be compared: `.%s` is unreadable", o.typ.Name, name)
		}
		if (a == nil) != (b == nil) || a != nil && a.Equal(b) != types.True {
			return types.False
		}
	}
	return types.True
}

// Type implements ref.Val.
func (o *Object) Type() ref.Type { return ObjectNamed(o.typ.Name) }

// Value implements ref.Val.
func (o *Object) Value() any { return o }

// Get implements traits.Indexer.
func (o *Object) Get(index ref.Val) ref.Val {
	name, ok := index.(types.String)
	if !ok {
		return types.MaybeNoSuchOverloadErr(index)
	}
	v, err := o.Field(string(name))
	if err != nil {
		return types.WrapErr(err)
	}
	return v
}

// IsSet implements traits.FieldTester.
func (o *Object) IsSet(index ref.Val) ref.Val {
	name, ok := index.(types.String)
	return types.Bool(ok && o.has(string(name)))
}

// native turns the object into plain data; what is absent is left out.
func (o *Object) native() (any, error) {
	out := map[string]any{}
	for name := range o.typ.Fields {
		v, err := o.get(name)
		if err != nil {
			return nil, err
		}
		if v == nil {
			continue
		}
		if out[name], err = JSONValue(v); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// NewObject makes an object of ready fields.
func (ts *TypeSystem) NewObject(name string, fields map[string]ref.Val) *Object {
	return ts.NewLazyObject(name, func(f string) (ref.Val, error) { return fields[f], nil })
}

// NewLazyObject makes an object whose fields are read when an expression asks for them: get returns nil for what is absent.
func (ts *TypeSystem) NewLazyObject(name string, get func(field string) (ref.Val, error)) *Object {
	return &Object{typ: ts.objects[name], get: get}
}

// FieldNames are the names of the fields, sorted.
func (o *ObjectType) FieldNames() []string {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(o.Fields)), func(name string) bool { return o.Fields[name] == nil })
}

// TypeName is a CEL type as people say it.
func TypeName(t *cel.Type) string {
	switch {
	case IsOptional(t):
		return "optional " + TypeName(t.Parameters()[0])
	case t.Kind() == types.ListKind:
		return "list of " + TypeName(t.Parameters()[0])
	case t.Kind() == types.MapKind:
		return "map of " + TypeName(t.Parameters()[1])
	case t.Kind() == types.DynKind:
		return "anything"
	case isPastCheckpoint(t):
		return "record of a checkpoint"
	case t.Kind() == types.StructKind && !IsArtifact(strings.TrimPrefix(t.TypeName(), objectPrefix)):
		return "object"
	}
	return strings.TrimPrefix(strings.TrimPrefix(t.String(), "google.protobuf."), objectPrefix)
}

// present is a type without that it may be absent.
func present(t *cel.Type) *cel.Type {
	if t != nil && IsOptional(t) {
		return t.Parameters()[0]
	}
	return t
}

// IsOptional reports whether a type is one of values that may be absent.
func IsOptional(t *cel.Type) bool {
	return t.Kind() == types.OpaqueKind && t.TypeName() == "optional_type"
}

// Adopt makes a type of another pipeline one of this: objects get a name of their own.
func (ts *TypeSystem) Adopt(t *cel.Type, from *TypeSystem, owner string) *cel.Type {
	switch {
	case t.Kind() == types.ListKind:
		return cel.ListType(ts.Adopt(t.Parameters()[0], from, owner))
	case t.Kind() == types.MapKind:
		return cel.MapType(t.Parameters()[0], ts.Adopt(t.Parameters()[1], from, owner))
	case IsOptional(t):
		return cel.OptionalType(ts.Adopt(t.Parameters()[0], from, owner))
	case t.Kind() != types.StructKind || IsArtifact(TypeName(t)) || from.ObjectType(t) == nil:
		return t
	}
	theirs := from.ObjectType(t)
	name := owner + "/" + theirs.Name
	if ts.Lookup(name) != nil {
		return ObjectNamed(name)
	}
	ours := &ObjectType{
		Name: name, What: theirs.What, Code: theirs.Code, Rest: theirs.Rest, Optional: theirs.Optional, Zeros: theirs.Zeros, Ranges: theirs.Ranges, Fields: map[string]*cel.Type{},
	}
	ts.Define(ours) // before its fields: an object may hold itself
	for field, t := range theirs.Fields {
		ours.Fields[field] = ts.Adopt(t, from, owner)
	}
	return ObjectNamed(name)
}
