package dsl

import (
	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"

	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/artifact"
)

func triggerType() *objectType {
	return &objectType{
		name: "trigger", code: "name", what: "a fact of the trigger", optional: map[string]bool{"value": true},
		fields: map[string]*cel.Type{
			"name": cel.StringType, "kind": cel.StringType, "time": cel.TimestampType, "files": cel.ListType(cel.StringType),
			"value": cel.DoubleType,
		},
	}
}

func triggerValue(ts *typeSystem, t spec.TriggerFacts) *object {
	fields := map[string]ref.Val{
		"name": types.String(t.Name), "kind": types.String(t.Kind), "time": types.Timestamp{Time: t.Time},
		"files": types.NewStringList(ts, t.Files),
	}
	if t.Kind == "metric" {
		fields["value"] = types.Double(t.Value)
	}
	return ts.fixed("trigger", fields)
}

// published are the newest versions of artifacts, by name.
func published(ts *typeSystem, t *cel.Type, refs map[string]artifact.Ref) (ref.Val, error) {
	values := make(map[ref.Val]ref.Val, len(refs))
	for name, r := range refs {
		raw, err := spec.Encode(r)
		if err != nil {
			return nil, err
		}
		if values[types.String(name)], err = ts.decode(t, raw); err != nil {
			return nil, err
		}
	}
	return ts.newMap(values), nil
}
