package dsl

import (
	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"

	"github.com/sluiceml/sluice/dsl/expr"
	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/artifact"
)

func triggerType() *expr.ObjectType {
	return &expr.ObjectType{
		Name: "trigger", Code: "name", What: "a fact of the trigger", Optional: map[string]bool{"value": true},
		Fields: map[string]*cel.Type{
			"name": cel.StringType, "kind": cel.StringType, "time": cel.TimestampType, "files": cel.ListType(cel.StringType),
			"value": cel.DoubleType,
		},
	}
}

func triggerValue(ts *expr.TypeSystem, t spec.TriggerFacts) *expr.Object {
	fields := map[string]ref.Val{
		"name": types.String(t.Name), "kind": types.String(t.Kind), "time": types.Timestamp{Time: t.Time},
		"files": types.NewStringList(ts, t.Files),
	}
	if t.Kind == "metric" {
		fields["value"] = types.Double(t.Value)
	}
	return ts.NewObject("trigger", fields)
}

// published are the newest versions of artifacts, by name.
func published(ts *expr.TypeSystem, t *cel.Type, refs map[string]artifact.Ref) (ref.Val, error) {
	values := make(map[ref.Val]ref.Val, len(refs))
	for name, r := range refs {
		raw, err := spec.Encode(r)
		if err != nil {
			return nil, err
		}
		if values[types.String(name)], err = ts.Decode(t, raw); err != nil {
			return nil, err
		}
	}
	return ts.NewMap(values), nil
}
