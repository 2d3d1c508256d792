package transform

import (
	"go.yaml.in/yaml/v3"

	"github.com/sluiceml/sluice/dsl/document"
	"github.com/sluiceml/sluice/dsl/spec"
)

// Filter drops the rows for which the expression is false. They are counted under the transform's name.
type Filter struct {
	// Keep is a bool CEL expression over the row.
	Keep spec.Expr `json:"keep" dsl:"bool"`
	// Language of the expression: cel.
	Language string `json:"language,omitempty" dsl:"enum=cel"`
	ErrorKeys
}

// Check reports a condition that is the same for all rows.
func (Filter) Check(r document.Reporter, _ StepFacts, config *yaml.Node) {
	switch keep := document.Lookup(config, "keep"); {
	case keep == nil:
	case keep.Value == "false":
		r.Errorf(keep, "row", "write the condition of the rows to keep", "no row is kept")
	case keep.Value == "true":
		r.Warnf(keep, "row", "write the condition of the rows to keep, or remove the transform", "all rows are kept")
	}
}
