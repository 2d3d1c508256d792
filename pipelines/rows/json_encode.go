package rows

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/sluiceml/sluice/dsl/expr/value"
)

// AppendValue appends the canonical JSON of a value: sorted keys, no white space, and no unnecessary escapes except for U+2028 and U+2029. Equal
// values have equal bytes, except that 1 and 1.0 differ. Values that JSON has no form for are written as their canonical texts (see package
// value), and NaN and infinities as null.
func AppendValue(to []byte, v any) ([]byte, error) { return encoder{}.value(to, v) }

// AppendTypedValue is like AppendValue, but values that JSON has no form for are written with their types, for DecodeTypedValue. The result is JSON if there are
// none.
func AppendTypedValue(to []byte, v any) ([]byte, error) { return encoder{typed: true}.value(to, v) }

// AppendComparable is like AppendTypedValue, but equal values have equal bytes: 1, 1.0 and the decimal 1.00 do not differ, and neither do dates and
// the times at which they begin.
func AppendComparable(to []byte, v any) ([]byte, error) {
	return encoder{typed: true, comparable: true}.value(to, v)
}

type encoder struct{ typed, comparable bool }

func (e encoder) value(to []byte, v any) ([]byte, error) {
	switch v := v.(type) {
	case nil:
		return append(to, "null"...), nil
	case bool:
		return strconv.AppendBool(to, v), nil
	case int64:
		return strconv.AppendInt(to, v, 10), nil
	case float64:
		if n := int64(v); e.comparable && float64(n) == v && -1<<63 <= v && v < 1<<63 {
			return strconv.AppendInt(to, n, 10), nil
		}
		if value.Finite(v) {
			return appendFloat(to, v), nil
		}
		if !e.typed {
			return append(to, "null"...), nil
		}
	case string:
		return appendString(to, v), nil
	case []any:
		return e.list(to, v)
	case map[string]any:
		return e.object(to, v)
	case uint64:
		if !e.typed || e.comparable {
			return strconv.AppendUint(to, v, 10), nil
		}
	}
	if e.comparable {
		switch of := v.(type) {
		case value.Decimal:
			if plain, ok := of.Plain(); ok {
				return e.value(to, plain)
			}
			return appendString(append(to, byte(value.OfDecimal)), of.Reduced()), nil
		case time.Time:
			v = of.UTC()
		}
	}
	text, ok := value.Text(v)
	if !ok {
		return nil, fmt.Errorf("a row cannot hold a %T", v)
	}
	if e.typed {
		to = append(to, byte(value.KindOf(v))) // the mark of the value's type
	}
	return appendString(to, text), nil
}

func (e encoder) list(to []byte, list []any) (_ []byte, err error) {
	to = append(to, '[')
	for i, v := range list {
		if i > 0 {
			to = append(to, ',')
		}
		if to, err = e.value(to, v); err != nil {
			return nil, err
		}
	}
	return append(to, ']'), nil
}

func (e encoder) object(to []byte, object map[string]any) (_ []byte, err error) {
	var few [16]string
	names := few[:0]
	for name := range object {
		names = append(names, name)
	}
	slices.Sort(names)
	to = append(to, '{')
	for i, name := range names {
		if i > 0 {
			to = append(to, ',')
		}
		to = append(appendString(to, name), ':')
		if to, err = e.value(to, object[name]); err != nil {
			return nil, err
		}
	}
	return append(to, '}'), nil
}

// appendFloat appends the shortest number that decodes to f: with an exponent if it is very large or small, and otherwise with a fraction
// even if f is an integer, since it would be decoded as an int64 without one.
func appendFloat(to []byte, f float64) []byte {
	if size := math.Abs(f); size == 0 || 1e-6 <= size && size < 1e21 {
		to = strconv.AppendFloat(to, f, 'f', -1, 64)
		if f == math.Trunc(f) {
			to = append(to, ".0"...)
		}
		return to
	}
	to = strconv.AppendFloat(to, f, 'e', -1, 64)
	if n := len(to); to[n-4] == 'e' && to[n-3] == '-' && to[n-2] == '0' { // shorten e-09 to e-9
		to = append(to[:n-2], to[n-1])
	}
	return to
}

func appendString(to []byte, s string) []byte {
	to = append(to, '"')
	for {
		n, ascii := plain(s)
		if ascii || utf8.ValidString(s[:n]) && !strings.Contains(s[:n], "\u2028") && !strings.Contains(s[:n], "\u2029") {
			to = append(to, s[:n]...)
		} else {
			to = appendMended(to, s[:n])
		}
		if n == len(s) {
			return append(to, '"')
		}
		to = appendEscape(to, s[n])
		s = s[n+1:]
	}
}

const hexDigits = "0123456789abcdef"

// appendEscape appends a special character as an escape sequence.
func appendEscape(to []byte, c byte) []byte {
	switch c {
	case '"', '\\':
		return append(to, '\\', c)
	case '\b':
		return append(to, `\b`...)
	case '\f':
		return append(to, `\f`...)
	case '\n':
		return append(to, `\n`...)
	case '\r':
		return append(to, `\r`...)
	case '\t':
		return append(to, `\t`...)
	}
	return append(to, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&15])
}

// appendMended appends text without special characters that contains invalid UTF-8, U+2028 or U+2029; JavaScript treats the latter two as
// line ends.
func appendMended(to []byte, s string) []byte {
	for i, r := range s {
		switch {
		case r == utf8.RuneError && !strings.HasPrefix(s[i:], "\uFFFD"):
			to = append(to, `\ufffd`...)
		case r == '\u2028' || r == '\u2029':
			to = append(to, `\u202`...)
			to = append(to, hexDigits[r&15])
		default:
			to = utf8.AppendRune(to, r)
		}
	}
	return to
}
