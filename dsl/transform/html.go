package transform

import "github.com/sluiceml/sluice/dsl/spec"

// HTMLToText replaces HTML by the text a reader would see in a browser: scripts, styles, templates, frames, text fields and what is for
// browsers without scripts are left out, each up to where a browser takes it to end.
type HTMLToText struct {
	// Fields to convert.
	Fields []string `json:"fields"`
	// When is a bool CEL expression over the row; rows it is false for stay as they are. Default: every row is converted.
	When spec.Expr `json:"when,omitempty" dsl:"bool"`
	ErrorKeys
}
