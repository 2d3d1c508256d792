package expr

import (
	"github.com/google/cel-go/cel"

	"github.com/sluiceml/sluice/dsl/spec"
)

// ParamType is the type of a parameter in expressions, or of an output or a field that is declared alike; nil when what it is declared to be
// is no type.
func ParamType(p spec.Param) *cel.Type {
	switch p.Type {
	case "list":
		return cel.ListType(paramItemType(p))
	case "map":
		return cel.MapType(cel.StringType, paramItemType(p))
	case "enum":
		return cel.StringType
	case "dataset", "model", "checkpoint":
		return ObjectNamed(p.Type)
	}
	return scalarTypes[p.Type]
}

func paramItemType(p spec.Param) *cel.Type {
	if p.Items == "" {
		return cel.StringType
	}
	return scalarTypes[p.Items]
}

var scalarTypes = map[string]*cel.Type{
	"string": cel.StringType, "int": cel.IntType, "double": cel.DoubleType, "bool": cel.BoolType,
	"duration": cel.DurationType, "timestamp": cel.TimestampType,
}
