package transform

import (
	"github.com/google/cel-go/cel"
	"go.yaml.in/yaml/v3"

	"github.com/sluiceml/sluice/dsl/document"
)

// DecodeMail parses a raw e-mail message (RFC 5322, MIME) and sets the fields subject, from, date (RFC 3339 in UTC, null when unreadable),
// body and content_type (text/plain or text/html). Transfer encodings and charsets are decoded, broken ones as far as possible. A message
// that cannot be parsed is rejected.
type DecodeMail struct {
	// Field is the field with the raw message. It is removed from the row.
	Field string `json:"field"`
	ErrorKeys
}

// Shape implements Shaper.
func (DecodeMail) Shape(in Shape, config *yaml.Node, _ ExprTypes) Shape {
	if field := document.Lookup(config, "field"); field != nil {
		in = in.without(field.Value)
	}
	for _, name := range []string{"subject", "from", "body", "content_type"} {
		in = in.with(name, cel.StringType)
	}
	return in.with("date", cel.DynType) // null where it cannot be read
}
