package expr

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"

	"github.com/sluiceml/sluice/internal/artifact"
)

// Artifacts are those in a value of type t, in the order of the names of its fields.
func (ts *TypeSystem) Artifacts(t *cel.Type, raw json.RawMessage) []artifact.Ref {
	var all []artifact.Ref
	switch {
	case t.Kind() == types.DynKind:
		return untypedArtifacts(raw)
	case IsOptional(t):
		return ts.Artifacts(t.Parameters()[0], raw)
	case t.Kind() == types.ListKind:
		var items []json.RawMessage
		_ = json.Unmarshal(raw, &items) // what is no list has no artifacts
		for _, item := range items {
			all = append(all, ts.Artifacts(t.Parameters()[0], item)...)
		}
	case t.Kind() == types.MapKind:
		eachField(raw, func(_ string, item json.RawMessage) {
			all = append(all, ts.Artifacts(t.Parameters()[1], item)...)
		})
	case IsArtifact(TypeName(t)):
		var ref artifact.Ref
		if json.Unmarshal(raw, &ref) == nil && !ref.IsZero() {
			all = append(all, ref)
		}
	case ts.ObjectType(t) != nil:
		o := ts.ObjectType(t)
		eachField(raw, func(name string, item json.RawMessage) {
			if field := o.typeOf(name); field != nil {
				all = append(all, ts.Artifacts(field, item)...)
			}
		})
	}
	return all
}

// At is the type of what is at a path in values of type t, as artifact.In writes it; nil where nothing is.
func (ts *TypeSystem) At(t *cel.Type, path string) *cel.Type {
	switch o := ts.ObjectType(t); {
	case path == "" || t == cel.DynType:
		return t
	case IsOptional(t):
		return ts.At(t.Parameters()[0], path)
	case t.Kind() == types.ListKind:
		if index, rest, ok := strings.Cut(path, "]"); ok && strings.HasPrefix(index, "[") && index != "[" && strings.Trim(index[1:], "0123456789") == "" {
			return ts.At(t.Parameters()[0], strings.TrimPrefix(rest, "."))
		}
	case t.Kind() == types.MapKind:
		return ts.atField(path, func(string) *cel.Type { return t.Parameters()[1] })
	case o != nil:
		return ts.atField(path, o.typeOf)
	}
	return nil
}

// atField tries every beginning of a path as a name, because names may contain dots.
func (ts *TypeSystem) atField(path string, field func(name string) *cel.Type) *cel.Type {
	for end := range len(path) + 1 {
		if end < len(path) && path[end] != '.' && path[end] != '[' {
			continue
		}
		if t := field(path[:end]); t != nil {
			if found := ts.At(t, strings.TrimPrefix(path[end:], ".")); found != nil {
				return found
			}
		}
	}
	return nil
}

// Paths are the paths of the artifacts in values of type t, as far as it tells them.
func (ts *TypeSystem) Paths(t *cel.Type) (paths []string) {
	if IsOptional(t) {
		return ts.Paths(t.Parameters()[0])
	}
	if name := TypeName(t); name == "dataset" || name == "model" {
		return []string{""}
	}
	o := ts.ObjectType(t)
	if o == nil {
		return nil
	}
	for _, name := range o.FieldNames() {
		for _, below := range ts.Paths(o.Fields[name]) {
			paths = append(paths, strings.TrimSuffix(name+"."+below, "."))
		}
	}
	return paths
}

// untypedArtifacts are what looks like an artifact in a value of which nothing is known.
func untypedArtifacts(raw json.RawMessage) []artifact.Ref {
	var ref artifact.Ref
	if json.Unmarshal(raw, &ref) == nil && !ref.IsZero() && IsArtifact(string(ref.Type)) {
		return []artifact.Ref{ref}
	}
	var all []artifact.Ref
	var items []json.RawMessage
	_ = json.Unmarshal(raw, &items) // what is no list is an object, or has no artifacts
	for _, item := range items {
		all = append(all, untypedArtifacts(item)...)
	}
	eachField(raw, func(_ string, item json.RawMessage) { all = append(all, untypedArtifacts(item)...) })
	return all
}

// eachField calls do with each field of a JSON object, by name; of what is none with nothing.
func eachField(raw json.RawMessage, do func(name string, value json.RawMessage)) {
	var fields map[string]json.RawMessage
	if json.Unmarshal(raw, &fields) != nil {
		return
	}
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		do(name, fields[name])
	}
}
