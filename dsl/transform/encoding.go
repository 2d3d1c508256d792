package transform

import (
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/ianaindex"

	"github.com/sluiceml/sluice/dsl/document"
)

// TextEncoding returns the encoding with a name of IANA's registry, in any case. One in which a line does not end with the bytes of a
// line feed, or that is not implemented, is an error.
func TextEncoding(name string) (encoding.Encoding, error) {
	e, err := ianaindex.IANA.Encoding(name)
	if err != nil && strings.HasPrefix(strings.ToLower(name), "utf") && strings.Contains(name, "8") {
		return nil, fmt.Errorf("%q is not an encoding in the IANA registry; remove `encoding`: files are read as UTF-8, with or without a byte order mark", name)
	}
	if err != nil {
		return nil, fmt.Errorf("%q is not an encoding in the IANA registry; write for example windows-1252, Shift_JIS or UTF-16LE", name)
	}
	if e == nil {
		return nil, fmt.Errorf("the encoding %s is not supported; convert the files to UTF-8 first", name)
	}
	lf, err := e.NewEncoder().Bytes([]byte("\n"))
	if err != nil || !slices.Contains([]string{"\n", "\n\x00", "\x00\n", "\xfe\xff\x00\n"}, string(lf)) {
		return nil, fmt.Errorf("text in %s does not have line feeds that end lines; convert the files to UTF-8 first", name)
	}
	return e, nil
}

// TextEncodingKeys say how bytes are text.
type TextEncodingKeys struct {
	// Encoding of the files by its IANA name: windows-1252, Shift_JIS, UTF-16LE. Default: UTF-8. A byte order mark in a file takes
	// precedence.
	Encoding string `json:"encoding,omitempty"`
	// OnInvalid: reject (default) rejects rows with bytes that are invalid in the encoding, replace puts U+FFFD in their place. The same
	// applies to half of a surrogate pair in JSON.
	OnInvalid string `json:"on_invalid,omitempty" dsl:"enum=reject|replace"`
}

// Check demands that the encoding can be read.
func (TextEncodingKeys) Check(r document.Reporter, _ StepFacts, config *yaml.Node) {
	at := document.Lookup(config, "encoding")
	if at == nil || at.Kind != yaml.ScalarNode {
		return
	}
	if _, err := TextEncoding(at.Value); err != nil {
		r.Errorf(at, "file-format", "", "%s", err)
	}
}
