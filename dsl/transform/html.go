package transform

import "github.com/sluiceml/sluice/dsl/spec"

// HTMLToText replaces HTML by the text that a browser would show: scripts, styles, templates, frames, text fields and noscript content are
// left out, each up to the place where a browser would end it.
type HTMLToText struct {
	// Fields to convert.
	Fields []string `json:"fields"`
	// When is a bool CEL expression over the row; rows for which it is false are not changed. Default: every row is converted.
	When spec.Expr `json:"when,omitempty" dsl:"bool"`
	ErrorKeys
}
