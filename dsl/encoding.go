package dsl

import (
	"fmt"
	"slices"

	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/ianaindex"
)

// TextEncoding returns the encoding with a name of IANA's registry, in any case. One in which a line does not end with the bytes of a
// line feed, or that is not implemented, is an error.
func TextEncoding(name string) (encoding.Encoding, error) {
	e, err := ianaindex.IANA.Encoding(name)
	if err != nil {
		return nil, fmt.Errorf("%q is no encoding that IANA's registry names; write such as windows-1252, Shift_JIS or UTF-16LE", name)
	}
	if e == nil {
		return nil, fmt.Errorf("the encoding %s cannot be read; convert the files to UTF-8 first", name)
	}
	lf, err := e.NewEncoder().Bytes([]byte("\n"))
	if err != nil || !slices.Contains([]string{"\n", "\n\x00", "\x00\n", "\xfe\xff\x00\n"}, string(lf)) {
		return nil, fmt.Errorf("the lines of text in %s do not end with a line feed; convert the files to UTF-8 first", name)
	}
	return e, nil
}
