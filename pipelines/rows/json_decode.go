package rows

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"sync/atomic"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/sluiceml/sluice/dsl/expr/value"
)

// maxDepth is how deeply lists and objects may be nested.
const maxDepth = 10_000

// The errors for valid JSON that cannot be represented exactly as a value of a row.
var (
	// ErrRange is the error for a number that fits neither an int64 nor a float64.
	ErrRange = errors.New("does not fit 64 bits")
	// ErrRepeated is the error for an object with two fields of the same name.
	ErrRepeated = errors.New("is duplicated")
	// ErrSurrogate is the error for an unpaired surrogate.
	ErrSurrogate = errors.New("is half a character")
)

// DecodeValue decodes one JSON value, with nothing but white space around it. The result does not refer to text. With one of the errors above,
// DecodeValue also returns the closest value: the last of several fields with the same name, U+FFFD for an unpaired surrogate, the nearest
// number. If several errors occur, it returns the last one, but any other error takes precedence over ErrSurrogate.
func DecodeValue(text []byte) (any, error) {
	d := decoder{text: text}
	return d.all()
}

// DecodeExactValue is like DecodeValue, but numbers with a fraction or an exponent, and those beyond 64 bits, are decimals.
func DecodeExactValue(text []byte) (any, error) {
	d := decoder{text: text, exact: true}
	return d.all()
}

// DecodeTypedValue decodes what AppendTypedValue has written. typed reports whether the text has values that JSON has no form for.
func DecodeTypedValue(text []byte) (v any, typed bool, err error) {
	d := decoder{text: text, typed: true}
	v, err = d.all()
	return v, d.found, err
}

type decoder struct {
	text []byte
	at   int
	lost error
	// typed accepts values with types, and found is set when there was one.
	typed, found bool
	// exact makes decimals of numbers that an integer does not represent.
	exact bool
}

func (d *decoder) all() (any, error) {
	v, err := d.value(0)
	if err != nil {
		return nil, err
	}
	if d.space(); d.at < len(d.text) {
		return nil, d.unexpected("after the JSON value")
	}
	return v, d.lost
}

// lose records that something could not be represented.
func (d *decoder) lose(what string, err error) {
	if d.lost == nil || !errors.Is(err, ErrSurrogate) {
		d.lost = fmt.Errorf("%s %w", what, err)
	}
}

// space skips white space.
func (d *decoder) space() {
	for d.at < len(d.text) {
		switch d.text[d.at] {
		case ' ', '\t', '\n', '\r':
			d.at++
		default:
			return
		}
	}
}

// next skips white space and returns the next byte, or 0 at the end.
func (d *decoder) next() byte {
	d.space()
	if d.at == len(d.text) {
		return 0
	}
	return d.text[d.at]
}

func (d *decoder) unexpected(where string) error {
	if d.at >= len(d.text) {
		return fmt.Errorf("the JSON ends %s", where)
	}
	r, _ := utf8.DecodeRune(d.text[d.at:])
	return fmt.Errorf("%q %s, at byte %d", r, where, d.at)
}

func (d *decoder) value(depth int) (any, error) {
	if depth > maxDepth {
		return nil, fmt.Errorf("the JSON is nested more than %d deep", maxDepth)
	}
	switch c := d.next(); {
	case c == '"':
		return d.string()
	case c == '{':
		return d.object(depth)
	case c == '[':
		return d.list(depth)
	case c == '-' || '0' <= c && c <= '9':
		return d.number()
	case c == 't' && d.word("true"):
		return true, nil
	case c == 'f' && d.word("false"):
		return false, nil
	case c == 'n' && d.word("null"):
		return nil, nil //nolint:nilnil // it is the value
	case d.typed && d.at < len(d.text):
		return d.marked(c)
	}
	return nil, d.unexpected("where a value is expected")
}

// marked reads a value that AppendTypedValue has marked with its type.
func (d *decoder) marked(mark byte) (any, error) {
	if d.at++; d.at == len(d.text) || d.text[d.at] != '"' {
		return nil, d.unexpected("after the mark of a value")
	}
	d.found = true
	text, err := d.string()
	if err != nil {
		return nil, err
	}
	return value.Parse(value.Kind(mark), text)
}

// word skips w if it is next.
func (d *decoder) word(w string) bool {
	if len(d.text)-d.at < len(w) || string(d.text[d.at:d.at+len(w)]) != w {
		return false
	}
	d.at += len(w)
	return true
}

func (d *decoder) object(depth int) (any, error) {
	d.at++
	object := make(map[string]any)
	if d.next() == '}' {
		d.at++
		return object, nil
	}
	for fields := 1; ; fields++ {
		if d.next() != '"' {
			return nil, d.unexpected("where the name of a field is expected")
		}
		name, err := d.name()
		if err != nil {
			return nil, err
		}
		if d.next() != ':' {
			return nil, d.unexpected("where a : is expected")
		}
		d.at++
		if object[name], err = d.value(depth + 1); err != nil {
			return nil, err
		}
		if len(object) < fields {
			fields--
			d.lose(fmt.Sprintf("the field %.40q", name), ErrRepeated)
		}
		switch d.next() {
		case ',':
			d.at++
		case '}':
			d.at++
			return object, nil
		default:
			return nil, d.unexpected("where a , or the end of the object is expected")
		}
	}
}

func (d *decoder) list(depth int) (any, error) {
	d.at++
	list := []any{}
	if d.next() == ']' {
		d.at++
		return list, nil
	}
	for {
		v, err := d.value(depth + 1)
		if err != nil {
			return nil, err
		}
		list = append(list, v)
		switch d.next() {
		case ',':
			d.at++
		case ']':
			d.at++
			return list, nil
		default:
			return nil, d.unexpected("where a , or the end of the list is expected")
		}
	}
}

func (d *decoder) number() (any, error) {
	start, whole := d.at, true
	if d.text[d.at] == '-' {
		d.at++
	}
	if d.at < len(d.text) && d.text[d.at] == '0' {
		d.at++ // no digit may follow
	} else if !d.digits() {
		return nil, d.unexpected("in a number")
	}
	if d.at < len(d.text) && d.text[d.at] == '.' {
		d.at++
		if whole = false; !d.digits() {
			return nil, d.unexpected("in a number")
		}
	}
	if d.at < len(d.text) && d.text[d.at]|0x20 == 'e' {
		d.at++
		if d.at < len(d.text) && (d.text[d.at] == '+' || d.text[d.at] == '-') {
			d.at++
		}
		if whole = false; !d.digits() {
			return nil, d.unexpected("in a number")
		}
	}
	if n, ok := shortInt(d.text[start:d.at]); ok && whole {
		return n, nil
	}
	text := string(d.text[start:d.at])
	n, err := strconv.ParseInt(text, 10, 64)
	if whole && err == nil {
		return n, nil
	}
	if d.exact {
		if exact, err := value.ParseDecimal(text); err == nil {
			return exact, nil
		}
	}
	if whole {
		if big, err := strconv.ParseUint(text, 10, 64); err == nil {
			return big, nil
		}
		d.lose(fmt.Sprintf("the number %.40s", text), ErrRange)
		return n, nil
	}
	f, err := strconv.ParseFloat(text, 64)
	if err != nil || f == 0 && !zero(text) {
		d.lose(fmt.Sprintf("the number %.40s", text), ErrRange)
		f = max(-math.MaxFloat64, min(f, math.MaxFloat64))
	}
	return f, nil
}

// zero reports whether a number has only zeros before its exponent.
func zero(text string) bool {
	return !strings.ContainsAny(text[:strings.IndexAny(text+"e", "eE")], "123456789")
}

// shortInt parses an integer that is short enough not to overflow.
func shortInt(text []byte) (n int64, ok bool) {
	if len(text) > 18 {
		return 0, false
	}
	digits := bytes.TrimPrefix(text, []byte("-"))
	for _, c := range digits {
		n = 10*n + int64(c-'0')
	}
	if len(digits) < len(text) {
		n = -n
	}
	return n, true
}

// digits skips at least one digit.
func (d *decoder) digits() bool {
	start := d.at
	for d.at < len(d.text) && '0' <= d.text[d.at] && d.text[d.at] <= '9' {
		d.at++
	}
	return d.at > start
}

// names caches names of fields: most names of a row also occur in the next one. Each name has one possible place.
var names [256]atomic.Pointer[string]

// maxName is the length up to which names are cached.
const maxName = 64

// name reads the name of a field; its quotation mark is next.
func (d *decoder) name() (string, error) {
	rest := d.text[d.at+1:]
	n, _ := plain(rest)
	if n == 0 || n > maxName || n == len(rest) || rest[n] != '"' {
		return d.string()
	}
	place := &names[byte(n)*31+rest[0]*7+rest[n/2]*3+rest[n-1]]
	if known := place.Load(); known != nil && *known == string(rest[:n]) {
		d.at += n + 2
		return *known, nil
	}
	name, err := d.string()
	if err == nil && len(name) == n { // otherwise invalid UTF-8 was replaced
		place.Store(&name)
	}
	return name, err
}

// string reads a string; its quotation mark is next.
func (d *decoder) string() (string, error) {
	d.at++
	rest := d.text[d.at:]
	n, ascii := plain(rest)
	if n < len(rest) && rest[n] == '"' {
		d.at += n + 1
		s := string(rest[:n])
		if !ascii && !utf8.ValidString(s) {
			s = valid(rest[:n])
		}
		return s, nil
	}
	var b strings.Builder
	b.Grow(2 * n)
	for {
		rest = d.text[d.at:]
		n, ascii = plain(rest)
		d.at += n
		if ascii || utf8.Valid(rest[:n]) {
			b.Write(rest[:n])
		} else {
			b.WriteString(valid(rest[:n]))
		}
		if d.at == len(d.text) || d.text[d.at] < 0x20 {
			return "", d.unexpected("in a string")
		}
		d.at++
		if rest[n] == '"' {
			return b.String(), nil
		}
		r, err := d.escape()
		if err != nil {
			return "", err
		}
		b.WriteRune(r)
	}
}

// valid returns text with U+FFFD in place of each byte that is not valid UTF-8.
func valid(text []byte) string {
	return strings.Map(func(r rune) rune { return r }, string(text))
}

// escape reads what follows a backslash. An unpaired surrogate becomes U+FFFD.
func (d *decoder) escape() (rune, error) {
	if d.at == len(d.text) {
		return 0, d.unexpected("in a string")
	}
	c := d.text[d.at]
	d.at++
	switch c {
	case '"', '\\', '/':
		return rune(c), nil
	case 'b':
		return '\b', nil
	case 'f':
		return '\f', nil
	case 'n':
		return '\n', nil
	case 'r':
		return '\r', nil
	case 't':
		return '\t', nil
	case 'u':
		r, ok := d.hex()
		if !ok {
			return 0, d.unexpected("in the four hexadecimal digits of a character")
		}
		if !utf16.IsSurrogate(r) {
			return r, nil
		}
		if before := d.at; d.word(`\u`) {
			if second, ok := d.hex(); ok {
				if both := utf16.DecodeRune(r, second); both != utf8.RuneError {
					return both, nil
				}
			}
			d.at = before
		}
		d.lose(fmt.Sprintf(`\u%04x`, r), ErrSurrogate)
		return utf8.RuneError, nil
	}
	d.at--
	return 0, d.unexpected(`after a \ in a string`)
}

// hex reads four hexadecimal digits.
func (d *decoder) hex() (rune, bool) {
	var r rune
	for i := range 4 {
		if d.at+i == len(d.text) {
			return 0, false
		}
		c := rune(d.text[d.at+i])
		switch {
		case '0' <= c && c <= '9':
			c -= '0'
		case 'a' <= c|0x20 && c|0x20 <= 'f':
			c = c | 0x20 - 'a' + 10
		default:
			return 0, false
		}
		r = r<<4 | c
	}
	d.at += 4
	return r, true
}
