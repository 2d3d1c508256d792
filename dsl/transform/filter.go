package transform

import "github.com/sluiceml/sluice/dsl/spec"

// Filter drops the rows its expression is false for. The transform's name is the rule they are counted under.
type Filter struct {
	// Keep is a bool CEL expression over the row.
	Keep spec.Expr `json:"keep" dsl:"bool"`
	// Language of the expression: cel.
	Language string `json:"language,omitempty" dsl:"enum=cel"`
	ErrorKeys
}
