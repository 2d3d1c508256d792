package rowjson

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
)

// maxDepth is how deep lists and objects may be nested.
const maxDepth = 10_000

// The errors of what is JSON and no value of a row.
var (
	// ErrRange is that of a number that is neither an int64 nor a float64.
	ErrRange = errors.New("does not fit 64 bits")
	// ErrRepeated is that of an object with two fields of one name.
	ErrRepeated = errors.New("is duplicated")
	// ErrSurrogate is that of half a character: a surrogate without the other one of its pair.
	ErrSurrogate = errors.New("is half a character")
)

// Decode reads one JSON value, with nothing but white space around it. What it returns does not hold on to text. With one of the errors
// above, it returns what is left of the value too: the last of several fields, U+FFFD for half a character, the nearest number. Of
// several it is the last but for ErrSurrogate, which any other one overrules.
func Decode(text []byte) (any, error) {
	d := decoder{text: text}
	v, err := d.value(0)
	if err != nil {
		return nil, err
	}
	if d.space(); d.at < len(text) {
		return nil, d.unexpected("after the JSON value")
	}
	return v, d.lost
}

type decoder struct {
	text []byte
	at   int
	lost error
}

// lose notes that something could not be kept.
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

// next skips white space and returns the byte that follows, or 0 at the end.
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
	}
	return nil, d.unexpected("where a value is expected")
}

// word skips a word if it is next.
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
		d.at++ // and no digit follows
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
	if whole {
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			d.lose(fmt.Sprintf("the number %.40s", text), ErrRange)
		}
		return n, nil
	}
	f, err := strconv.ParseFloat(text, 64)
	if err != nil || f == 0 && !zero(text) {
		d.lose(fmt.Sprintf("the number %.40s", text), ErrRange)
		f = max(-math.MaxFloat64, min(f, math.MaxFloat64))
	}
	return f, nil
}

// zero reports whether a number has no other digits than 0 before its exponent.
func zero(text string) bool {
	return !strings.ContainsAny(text[:strings.IndexAny(text+"e", "eE")], "123456789")
}

// shortInt reads a whole number of few digits.
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

// names are some of the names of fields that were read: those of one row are mostly those of the next, and each has its place.
var names [256]atomic.Pointer[string]

// maxName is how long the names are that are remembered.
const maxName = 64

// name reads the name of a field, whose quotation mark is next.
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
	if err == nil && len(name) == n { // which it is not when it was mended
		place.Store(&name)
	}
	return name, err
}

// string reads a string, whose quotation mark is next.
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

// valid returns a text with U+FFFD for each byte that is not UTF-8.
func valid(text []byte) string {
	return strings.Map(func(r rune) rune { return r }, string(text))
}

// escape reads what follows a backslash. Half of a surrogate pair becomes U+FFFD.
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
