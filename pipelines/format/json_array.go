package format

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"

	"github.com/sluiceml/sluice/pipelines/rows"
)

// maxHead is how much of a text is looked at to find out whether it is an array.
const maxHead = 4096

// isArray reports whether the text is a JSON array and not lines, of which the first may be one too.
func (l *lineReader) isArray() bool {
	head, _ := l.r.Peek(maxHead) // an error comes again
	head = bytes.TrimLeft(head, " \t\r\n")
	first, rest, _ := bytes.Cut(head, []byte("\n"))
	return l.charset.width == 1 && len(first) > 0 && first[0] == '[' && (!json.Valid(first) || len(bytes.TrimSpace(rest)) == 0)
}

// elements calls yield for each element of an array, as a line.
func (l *lineReader) elements(yield func(line) error) error {
	bounded := &io.LimitedReader{R: l.r}
	array := json.NewDecoder(bounded)
	fail := func(err error) error {
		syntax, isSyntax := errors.AsType[*json.SyntaxError](err)
		damaged, isDamage := errors.AsType[*damage](err)
		switch {
		case isDamage:
		case isSyntax:
			damaged = &damage{"the array is invalid: " + syntax.Error()}
		case bounded.N <= 0:
			damaged = &damage{"an element of the array is too long"}
		case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
			damaged = &damage{"the array has no end: the file is truncated"}
		default:
			return err
		}
		return yield(line{l.at + array.InputOffset(), nil, rows.Reject(rows.ReasonDamaged, "%s; the rest of the file is not read", damaged)})
	}
	bounded.N = rows.MaxSize
	if _, err := array.Token(); err != nil { // the bracket
		return fail(err)
	}
	for {
		bounded.N = 2 * rows.MaxSize
		if !array.More() {
			break
		}
		var raw json.RawMessage
		if err := array.Decode(&raw); err != nil {
			return fail(err)
		}
		at := l.at + array.InputOffset() - int64(len(raw))
		text, err := l.charset.decode(raw, at)
		if long := rows.TooLong(raw); long != nil {
			text, err = raw[:rows.MaxText], long
		}
		if err := yield(line{at, text, err}); err != nil {
			return err
		}
	}
	if _, err := array.Token(); err != nil { // the bracket
		return fail(err)
	}
	if _, err := array.Token(); !errors.Is(err, io.EOF) {
		return fail(&damage{"there is text after the array"})
	}
	return nil
}
