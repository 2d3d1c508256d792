package expr

import (
	"github.com/google/cel-go/cel"

	"github.com/sluiceml/sluice/dsl/spec"
)

// ParamFor is the parameter that takes a value as it is in JSON. Every number is a double, as what steps measure is.
func ParamFor(v any) spec.Param {
	switch v := v.(type) {
	case bool:
		return spec.Param{Type: "bool"}
	case float64, int64:
		return spec.Param{Type: "double"}
	case []any:
		p := spec.Param{Type: "list"}
		if len(v) > 0 {
			p.Items = ParamFor(v[0]).Type
		}
		return p
	case map[string]any:
		if name, ok := v["type"].(string); ok && v["digest"] != nil && IsArtifact(name) {
			return spec.Param{Type: name}
		}
		p := spec.Param{Type: "map"}
		for _, item := range v {
			p.Items = ParamFor(item).Type
		}
		return p
	}
	return spec.Param{Type: "string"}
}

// ParamOf is the parameter that takes values of a type; false when none does.
func ParamOf(t *cel.Type) (spec.Param, bool) {
	for _, typ := range []string{"string", "int", "double", "bool", "duration", "timestamp", "dataset", "model"} {
		if p := (spec.Param{Type: typ}); ParamType(p) != nil && ParamType(p).IsExactType(t) {
			return p, true
		}
	}
	for _, typ := range []string{"list", "map"} {
		for _, items := range []string{"string", "int", "double", "bool"} {
			if p := (spec.Param{Type: typ, Items: items}); ParamType(p) != nil && ParamType(p).IsExactType(t) {
				return p, true
			}
		}
	}
	return spec.Param{}, false
}
