package expr

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"

	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/artifact"
)

// Expected is what the place of an expression takes: a Go type, or anything when it has none.
type Expected struct {
	Type     reflect.Type
	Artifact string // the artifact type taken; empty: any
	InText   bool   // of a text
	Hint     string // what to write in place of an artifact
}

var (
	goBool = reflect.TypeFor[bool]()
	goRef  = reflect.TypeFor[artifact.Ref]()
)

// accepts says why a value of type t cannot stand in the place; an empty message means that it can.
func (w Expected) accepts(t *cel.Type) (message, hint string) {
	if w.Type == nil || t.Kind() == types.DynKind {
		return "", ""
	}
	if IsOptional(t) {
		return fmt.Sprintf("this may be absent, but %s is required", w), "end it with `.orValue(...)`"
	}
	if w.fits(t) {
		return "", ""
	}
	switch {
	case w.Type == goBool && t.Kind() == types.ListKind:
		return "a condition must be a bool, not a list", "write it without brackets; join several with `&&`"
	case w.Type == goBool && slices.Contains([]types.Kind{types.StringKind, types.IntKind, types.DoubleKind}, t.Kind()):
		return fmt.Sprintf("a condition must be a bool, not %s", spec.Article(TypeName(t))), "compare it with something: a == b, a > b"
	case w.Type == goBool:
		return fmt.Sprintf("a condition must be a bool, not %s", spec.Article(TypeName(t))), ""
	case w.InText:
		return fmt.Sprintf("%s cannot be part of a string", spec.Article(TypeName(t))), asText(t)
	case isPastCheckpoint(t):
		hint = "the checkpoint that a generation resumed from may be removed at any time: declare an output of type checkpoint, and read that"
	case t.Kind() == types.DoubleKind && isInt(w.Type):
		hint = "write `int(...)`: metrics are doubles"
	}
	if w.Type.Kind() == reflect.String {
		hint = cmp.Or(hint, asText(t))
	}
	return fmt.Sprintf("this is %s, but expected %s", spec.Article(TypeName(t)), w), hint
}

// asText says how a list or a map becomes a text.
func asText(t *cel.Type) string {
	switch {
	case t.Kind() == types.ListKind && t.Parameters()[0].Kind() == types.StringKind:
		return "write .join(',') after it"
	case t.Kind() == types.ListKind, t.Kind() == types.MapKind:
		return "write json.encode(...) around it"
	}
	return ""
}

func (w Expected) fits(t *cel.Type) bool {
	k := t.Kind()
	switch {
	case w.Type == goRef:
		return k == types.StructKind && IsArtifact(TypeName(t)) && (w.Artifact == "" || w.Artifact == TypeName(t))
	case w.Type == spec.DurationType:
		return k == types.DurationKind || k == types.StringKind
	case w.Type == spec.SizeType:
		return k == types.IntKind || k == types.StringKind
	case isInt(w.Type):
		return k == types.IntKind
	}
	switch w.Type.Kind() {
	case reflect.Interface:
		return true
	case reflect.String:
		return slices.Contains([]types.Kind{types.StringKind, types.IntKind, types.DoubleKind, types.BoolKind, types.DurationKind, types.TimestampKind}, k)
	case reflect.Bool:
		return k == types.BoolKind
	case reflect.Float64:
		return k == types.DoubleKind || k == types.IntKind
	case reflect.Slice:
		return k == types.ListKind && Expected{Type: w.Type.Elem(), Artifact: w.Artifact}.fits(t.Parameters()[0])
	case reflect.Map:
		return k == types.MapKind && Expected{Type: w.Type.Elem(), Artifact: w.Artifact}.fits(t.Parameters()[1])
	}
	return false
}

// convert turns a value into what encoding/json writes for the place's type.
func (w Expected) convert(v ref.Val) (any, error) {
	switch {
	case w.Type == nil:
		return JSONValue(v)
	case w.Type == spec.DurationType:
		if d, ok := v.(types.Duration); ok {
			return spec.Duration(d.Duration), nil
		}
		return convertText(v, spec.ParseDuration)
	case w.Type == spec.SizeType && v.Type() == types.StringType:
		return convertText(v, spec.ParseSize)
	case w.Type.Kind() == reflect.String:
		return textOf(v)
	case isInt(w.Type):
		if n, ok := v.(types.Int); ok {
			return int64(n), nil
		}
		return nil, fmt.Errorf("a %s is not an int", v.Type().TypeName())
	}
	return JSONValue(v)
}

func convertText[T any](v ref.Val, parse func(string) (T, error)) (any, error) {
	s, ok := v.(types.String)
	if !ok {
		return nil, fmt.Errorf("a %s is not a string", v.Type().TypeName())
	}
	return parse(string(s))
}

// String says what the place takes.
func (w Expected) String() string {
	switch {
	case w.Type == goRef && w.Artifact != "":
		return "a " + w.Artifact
	case w.Type == goRef:
		return "an artifact"
	case w.Type == spec.DurationType:
		return "a duration"
	case w.Type == spec.ShareType:
		return "a share"
	case w.Type == spec.SizeType:
		return "a size"
	case w.Type == spec.TimeType:
		return "a time"
	case isInt(w.Type):
		return "an int"
	}
	switch w.Type.Kind() {
	case reflect.String:
		return "a string"
	case reflect.Bool:
		return "a bool"
	case reflect.Float64:
		return "a number"
	case reflect.Slice:
		return "a list"
	}
	return "a map"
}

// IsText reports whether the place takes a text with expressions in it.
func (w Expected) IsText() bool { return w.Type == nil || w.Type.Kind() == reflect.String }

func isInt(t reflect.Type) bool {
	return t != spec.DurationType && (t.Kind() == reflect.Int || t.Kind() == reflect.Int64)
}

// IsArtifact reports whether a type of that name is one of artifacts.
func IsArtifact(name string) bool { return slices.Contains(ArtifactTypes, artifact.Type(name)) }
