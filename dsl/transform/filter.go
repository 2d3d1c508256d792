package transform

import "github.com/sluiceml/sluice/dsl/spec"

// Filter drops the rows for which the expression is false. They are counted under the transform's name.
type Filter struct {
	// Keep is a bool CEL expression over the row.
	Keep spec.Expr `json:"keep" dsl:"bool"`
	// Language of the expression: cel.
	Language string `json:"language,omitempty" dsl:"enum=cel"`
	ErrorKeys
}
