package transform

import (
	"go.yaml.in/yaml/v3"

	"github.com/sluiceml/sluice/dsl/spec"
)

// Filter drops the rows its expression is false for. The transform's name is the rule they are counted under.
type Filter struct {
	// Keep is a bool CEL expression over the row.
	Keep spec.Expr `json:"keep" dsl:"bool"`
	// Language of the expression: cel.
	Language string `json:"language,omitempty" dsl:"enum=cel"`
	ErrorKeys
}

// Counts implements Counter.
func (Filter) Counts(to Counts, label string, _ *yaml.Node) { to.add("rules", label) }
