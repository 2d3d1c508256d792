package oip

import (
	"bytes"
	"encoding/json"
	"iter"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// The data of a tensor in JSON are read and written element by element here: encoding/json takes several times as long for them, and
// leaves the zero value in the place of a null.

// readAll reads a scalar, or a flat or nested array, of about so many elements.
func (f form[T]) readAll(raw json.RawMessage, about int) ([]T, int, error) {
	out := make([]T, 0, min(about, (len(raw)+1)/2)) // an element takes two bytes at least, with its comma
	for cell := range cells(raw) {
		v, ok := f.read(cell)
		if !ok {
			return nil, 0, &Misfit{Datatype: f.datatype, Value: bytes.Clone(cell)}
		}
		out = append(out, v)
	}
	return out, len(out), nil
}

const usualLength = 10 // of an element in JSON, with its comma

func (f form[T]) writeAll(to []byte, data []T) []byte {
	to = append(slices.Grow(to, usualLength*len(data)), '[')
	for i, v := range data {
		if i > 0 {
			to = append(to, ',')
		}
		to = f.write(to, v)
	}
	return append(to, ']')
}

// cells yields the elements of JSON: of a scalar, or of an array, flat or nested. In one that begins with an element, a list is an element,
// too.
func cells(raw []byte) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		if raw[0] != '[' {
			yield(raw)
			return
		}
		between := ",] \t\r\n"
		raw = bytes.TrimLeft(raw[1:], " \t\r\n")
		if len(raw) > 0 && raw[0] == '[' {
			between += "["
		}
		for {
			for len(raw) > 0 && strings.IndexByte(between, raw[0]) >= 0 {
				raw = raw[1:]
			}
			if len(raw) == 0 {
				return
			}
			n := valueLength(raw)
			if !yield(raw[:n]) {
				return
			}
			raw = raw[n:]
		}
	}
}

// valueLength is how long the value is that JSON begins with.
func valueLength(raw []byte) int {
	n, _ := extent(raw)
	return n
}

// extent is valueLength, and how many commas there are between the entries of the value.
func extent(raw []byte) (length, commas int) {
	depth, inText := 0, false
	for i := 0; i < len(raw); i++ {
		switch c := raw[i]; {
		case inText && c == '\\':
			i++
		case c == '"':
			inText = !inText
			if !inText && depth == 0 {
				return i + 1, commas
			}
		case inText:
		case c == '[' || c == '{':
			depth++
		case depth > 0 && (c == ']' || c == '}'):
			if depth--; depth == 0 {
				return i + 1, commas
			}
		case depth == 0 && (c == ',' || c == ']' || c == '}' || c <= ' '):
			return i, commas
		case depth == 1 && c == ',':
			commas++
		}
	}
	return len(raw), commas
}

func readBool(cell []byte) (v, ok bool) {
	isTrue := string(cell) == "true"
	return isTrue, isTrue || string(cell) == "false"
}

func readUint[T uint8 | uint16 | uint32 | uint64](bits int) func([]byte) (T, bool) {
	return func(cell []byte) (T, bool) {
		v, err := strconv.ParseUint(string(cell), 10, bits)
		return T(v), err == nil
	}
}

func readInt[T int8 | int16 | int32 | int64](bits int) func([]byte) (T, bool) {
	return func(cell []byte) (T, bool) {
		v, err := strconv.ParseInt(string(cell), 10, bits)
		return T(v), err == nil
	}
}

func readFloat[T float32 | float64](bits int) func([]byte) (T, bool) {
	return func(cell []byte) (T, bool) {
		v, err := strconv.ParseFloat(string(cell), bits)
		return T(v), err == nil
	}
}

func readText(cell []byte) (v string, ok bool) {
	if cell[0] != '"' {
		return "", false
	}
	if bytes.IndexByte(cell, '\\') < 0 && utf8.Valid(cell) {
		return string(cell[1 : len(cell)-1]), true
	}
	return v, json.Unmarshal(cell, &v) == nil
}

func appendUint[T uint8 | uint16 | uint32 | uint64](to []byte, v T) []byte {
	return strconv.AppendUint(to, uint64(v), 10)
}

func appendInt[T int8 | int16 | int32 | int64](to []byte, v T) []byte {
	return strconv.AppendInt(to, int64(v), 10)
}

// appendFloat writes numbers that are very small or large with an exponent.
func appendFloat[T float32 | float64](bits int) func(to []byte, v T) []byte {
	return func(to []byte, v T) []byte {
		format := byte('f')
		if size := math.Abs(float64(v)); size != 0 && (size < 1e-6 || size >= 1e21) {
			format = 'e'
		}
		return strconv.AppendFloat(to, float64(v), format, -1, bits)
	}
}

func appendText(to []byte, v string) []byte {
	for i := range len(v) {
		if c := v[i]; c < ' ' || c >= utf8.RuneSelf || strings.IndexByte(`"\<>&`, c) >= 0 {
			quoted, _ := json.Marshal(v) // a string always has a form
			return append(to, quoted...)
		}
	}
	to = append(to, '"')
	to = append(to, v...)
	return append(to, '"')
}
