package oip

import (
	"bytes"
	"encoding/json"
	"fmt"
	"iter"
	"strings"
	"unicode/utf8"
)

// What bounds a request besides its bytes. A tensor of two bytes takes fifty times as much memory when it is decoded, so these are checked
// before anything is.
const (
	// MaxTensors bounds the inputs of a request, and the outputs it asks for.
	MaxTensors = 1024
	// MaxDimensions bounds the shape of a tensor.
	MaxDimensions = 256
	// maxParameters bounds the parameters of a request, in bytes of JSON.
	maxParameters = 64 << 10
	// maxShownDimensions and maxMessage, in bytes, bound what an error repeats of a request.
	maxShownDimensions = 16
	maxMessage         = 2000
)

// bounded refuses a request of too many tensors. It takes no memory, and says nothing of JSON that is not valid.
func bounded(head []byte) error {
	for m := range members(head) {
		if m.entries > MaxTensors && (m.is("inputs") || m.is("outputs")) {
			return Invalid("the request has more than %d %s", MaxTensors, strings.ToLower(m.name()))
		}
	}
	return nil
}

// Field is a field of a JSON object; nil where there is none, or body is no JSON object.
func Field(body []byte, name string) json.RawMessage {
	if !json.Valid(body) {
		return nil
	}
	var value json.RawMessage
	for m := range members(body) {
		if m.has(name) {
			value = m.value // the last counts, as everywhere in encoding/json
		}
	}
	return value
}

// member is a field of a JSON object; entries is how many a list has, as far as their commas tell.
type member struct {
	key, value []byte
	entries    int
}

// isPlain reports whether the key is written as it is meant.
func (m member) isPlain() bool { return bytes.IndexByte(m.key, '\\') < 0 && utf8.Valid(m.key) }

// has reports whether the field has this name.
func (m member) has(name string) bool {
	if m.isPlain() {
		return string(m.key[1:len(m.key)-1]) == name
	}
	return m.name() == name
}

func (m member) name() (name string) {
	if m.isPlain() {
		return string(m.key[1 : len(m.key)-1])
	}
	_ = json.Unmarshal(m.key, &name) // a key that is not valid is none
	return name
}

// is reports whether encoding/json takes the field for one of this name.
func (m member) is(name string) bool { return strings.EqualFold(m.name(), name) }

// members yields the fields of a JSON object without reading further than their ends.
func members(object []byte) iter.Seq[member] {
	const space = " \t\r\n"
	return func(yield func(member) bool) {
		rest, isObject := bytes.CutPrefix(bytes.TrimLeft(object, space), []byte("{"))
		for isObject {
			rest = bytes.TrimLeft(rest, space+",")
			n, _ := extent(rest)
			if n < 2 || rest[0] != '"' {
				return
			}
			m := member{key: rest[:n]}
			var isField bool
			if rest, isField = bytes.CutPrefix(bytes.TrimLeft(rest[n:], space), []byte(":")); !isField {
				return
			}
			rest = bytes.TrimLeft(rest, space)
			n, commas := extent(rest)
			if m.value = rest[:n]; n == 0 {
				return
			}
			if rest[0] == '[' {
				m.entries = commas + 1
			}
			if !yield(m) {
				return
			}
			rest = rest[n:]
		}
	}
}

// dimensions is a shape in the JSON of a message that is read.
type dimensions []int64

// UnmarshalJSON implements json.Unmarshaler.
func (d *dimensions) UnmarshalJSON(raw []byte) error {
	if bytes.Count(raw, []byte(",")) >= MaxDimensions {
		return tooManyDimensions(bytes.Count(raw, []byte(",")) + 1)
	}
	return json.Unmarshal(raw, (*[]int64)(d))
}

func tooManyDimensions(n int) error {
	return fmt.Errorf("a shape has %d dimensions, more than %d", n, MaxDimensions)
}

// requestParameters are the parameters in the JSON of a request that is read.
type requestParameters map[string]any

// UnmarshalJSON implements json.Unmarshaler.
func (p *requestParameters) UnmarshalJSON(raw []byte) error {
	if len(raw) > maxParameters {
		return fmt.Errorf("its parameters have %d bytes, more than %d", len(raw), maxParameters)
	}
	*p = nil // a field that comes again does not add to the first
	return json.Unmarshal(raw, (*map[string]any)(p))
}

// shown is a shape in an error.
func shown(shape []int64) string {
	if len(shape) <= maxShownDimensions {
		return fmt.Sprint(shape)
	}
	first := fmt.Sprint(shape[:maxShownDimensions])
	return fmt.Sprintf("%s …] (%d dimensions)", first[:len(first)-1], len(shape))
}

// Shorten cuts an error that repeats too much of a request.
func Shorten(message string) string { return Cut(message, maxMessage) }

// Cut is a text of at most limit bytes, and an ellipsis where it has more.
func Cut(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	for !utf8.RuneStart(text[limit]) {
		limit--
	}
	return text[:limit] + "…"
}
