package expr

import (
	"encoding/json"
	"maps"
	"slices"

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
			if field, ok := o.Fields[name]; ok {
				all = append(all, ts.Artifacts(field, item)...)
			} else if o.Rest != nil {
				all = append(all, ts.Artifacts(o.Rest, item)...)
			}
		})
	}
	return all
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
