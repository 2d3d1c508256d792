package dsl

import (
	"fmt"
	"reflect"
	"slices"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"

	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/artifact"
)

// want is what the place of an expression takes: a Go type, or anything when it has none.
type want struct {
	typ      reflect.Type
	artifact string // the artifact type taken; empty: any
	part     bool   // of a text
}

var (
	goBool = reflect.TypeFor[bool]()
	goRef  = reflect.TypeFor[artifact.Ref]()
)

// accepts says why a value of type t cannot stand in the place; an empty message means that it can.
func (w want) accepts(t *cel.Type) (message, hint string) {
	if w.typ == nil || t.Kind() == types.DynKind {
		return "", ""
	}
	if isOptional(t) {
		return fmt.Sprintf("this may be absent, and the place takes %s", w), "end it with `.orValue(...)`"
	}
	if w.fits(t) {
		return "", ""
	}
	switch {
	case w.typ == goBool:
		return fmt.Sprintf("a condition must be a bool, and this is %s", spec.Article(typeName(t))), ""
	case w.part:
		return fmt.Sprintf("%s has no place inside a text", spec.Article(typeName(t))), ""
	case isPastCheckpoint(t):
		hint = "what a generation resumed from may be removed at any time: declare an output of type checkpoint, and read that"
	case t.Kind() == types.DoubleKind && isInt(w.typ):
		hint = "write `int(...)`: what steps measure are doubles"
	}
	return fmt.Sprintf("this is %s, and the place takes %s", spec.Article(typeName(t)), w), hint
}

func (w want) fits(t *cel.Type) bool {
	k := t.Kind()
	switch {
	case w.typ == goRef:
		return k == types.StructKind && isArtifact(typeName(t)) && (w.artifact == "" || w.artifact == typeName(t))
	case w.typ == spec.DurationType:
		return k == types.DurationKind || k == types.StringKind
	case w.typ == spec.SizeType:
		return k == types.IntKind || k == types.StringKind
	case isInt(w.typ):
		return k == types.IntKind
	}
	switch w.typ.Kind() {
	case reflect.Interface:
		return true
	case reflect.String:
		return slices.Contains([]types.Kind{types.StringKind, types.IntKind, types.DoubleKind, types.BoolKind, types.DurationKind, types.TimestampKind}, k)
	case reflect.Bool:
		return k == types.BoolKind
	case reflect.Float64:
		return k == types.DoubleKind || k == types.IntKind
	case reflect.Slice:
		return k == types.ListKind && want{typ: w.typ.Elem(), artifact: w.artifact}.fits(t.Parameters()[0])
	case reflect.Map:
		return k == types.MapKind && want{typ: w.typ.Elem(), artifact: w.artifact}.fits(t.Parameters()[1])
	}
	return false
}

// convert turns a value into what encoding/json writes for the place's type.
func (w want) convert(v ref.Val) (any, error) {
	switch {
	case w.typ == nil:
		return jsonValue(v)
	case w.typ == spec.DurationType:
		if d, ok := v.(types.Duration); ok {
			return spec.Duration(d.Duration), nil
		}
		return convertText(v, spec.ParseDuration)
	case w.typ == spec.SizeType && v.Type() == types.StringType:
		return convertText(v, spec.ParseSize)
	case w.typ.Kind() == reflect.String:
		return textOf(v)
	case isInt(w.typ):
		if n, ok := v.(types.Int); ok {
			return int64(n), nil
		}
		return nil, fmt.Errorf("a %s is no int", v.Type().TypeName())
	}
	return jsonValue(v)
}

func convertText[T any](v ref.Val, parse func(string) (T, error)) (any, error) {
	s, ok := v.(types.String)
	if !ok {
		return nil, fmt.Errorf("a %s is no text", v.Type().TypeName())
	}
	return parse(string(s))
}

// String says what the place takes.
func (w want) String() string {
	switch {
	case w.typ == goRef && w.artifact != "":
		return "a " + w.artifact
	case w.typ == goRef:
		return "an artifact"
	case w.typ == spec.DurationType:
		return "a duration"
	case w.typ == spec.ShareType:
		return "a share"
	case w.typ == spec.SizeType:
		return "a size"
	case w.typ == spec.TimeType:
		return "a time"
	case isInt(w.typ):
		return "an int"
	}
	switch w.typ.Kind() {
	case reflect.String:
		return "a text"
	case reflect.Bool:
		return "a bool"
	case reflect.Float64:
		return "a number"
	case reflect.Slice:
		return "a list"
	}
	return "a map"
}

// isText reports whether the place takes a text with expressions in it.
func (w want) isText() bool { return w.typ == nil || w.typ.Kind() == reflect.String }

func isInt(t reflect.Type) bool {
	return t != spec.DurationType && (t.Kind() == reflect.Int || t.Kind() == reflect.Int64)
}

func isArtifact(name string) bool { return slices.Contains(artifactTypes, artifact.Type(name)) }
