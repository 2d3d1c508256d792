package secret

import (
	"cmp"
	"encoding/base64"
	"io"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unicode/utf16"
	"unicode/utf8"
)

const (
	// mark stands where a secret was.
	mark = "***"
	// minLength is how long a secret must be, in bytes: masking a shorter one would tear ordinary text to pieces, and by that give it
	// away.
	minLength = 4
	// minLine is how long a line of a secret of several lines must be to be masked on its own.
	minLine = 8
)

// Mask replaces secrets in text by ***: their values as they are, and as base64, in URLs and in JSON; of a value of several lines
// each long line too. It keeps accidents out of logs. A program that is set on telling a secret can spell it in other ways.
//
// A nil Mask masks nothing. A Mask may be used from several goroutines.
type Mask struct {
	needles [256][]needle // by their first byte, the longest first
}

// needle is one form of a secret.
type needle struct {
	text    string
	wrapped bool // it may be broken into lines, as base64 is
}

// NewMask masks values. Those that are too short to be secrets it leaves out.
func NewMask(values ...string) *Mask {
	m := new(Mask)
	for _, v := range values {
		if len(v) < minLength {
			continue
		}
		for _, form := range forms(v) {
			if len(form.text) >= minLength {
				m.needles[form.text[0]] = append(m.needles[form.text[0]], form)
			}
		}
	}
	for i, same := range m.needles {
		slices.SortFunc(same, func(a, b needle) int {
			return cmp.Or(cmp.Compare(len(b.text), len(a.text)), cmp.Compare(a.text, b.text))
		})
		m.needles[i] = slices.Compact(same)
	}
	return m
}

// Text returns s without secrets. A secret that is cut off at the end of s is masked when half of it is there.
func (m *Mask) Text(s string) string {
	if m == nil {
		return s
	}
	var st stream
	return string(st.take(m, []byte(s), true))
}

// In reports whether s holds a secret.
func (m *Mask) In(s string) bool {
	for i := range len(s) {
		if n, _ := m.match([]byte(s[i:])); n > 0 {
			return true
		}
	}
	return false
}

// minCut is how much of a secret must be left, in bytes, for Cut to see it.
const minCut = 16

// Cut reports whether a text that was shortened to s ends within a secret.
func (m *Mask) Cut(s string) bool {
	for i := range len(s) - minCut + 1 {
		if _, begun := m.match([]byte(s[i:])); begun > 0 {
			return true
		}
	}
	return false
}

// isOne reports whether the whole text is a secret.
func (m *Mask) isOne(text string) bool {
	whole, _ := m.match([]byte(text))
	return whole == len(text)
}

// Holds reports whether a value, as JSON is decoded, gives a secret away: a text that holds one, or a number that is one.
func (m *Mask) Holds(v any) bool {
	switch v := v.(type) {
	case string:
		return m.In(v)
	case float64:
		return m.isOne(strconv.FormatFloat(v, 'f', -1, 64))
	case int64:
		return m.isOne(strconv.FormatInt(v, 10))
	case []any:
		return slices.ContainsFunc(v, m.Holds)
	case map[string]any:
		for key, value := range v {
			if m.In(key) || m.Holds(value) {
				return true
			}
		}
	}
	return false
}

// Writer masks what is written to w. Close writes the rest to w, and leaves w open.
func (m *Mask) Writer(w io.Writer) io.WriteCloser {
	return &writer{mask: m, to: w}
}

// match returns the length of the longest secret that b begins with, 0 for none, and the length of the longest one that b may be the
// beginning of, 0 for none.
func (m *Mask) match(b []byte) (whole, begun int) {
	if m == nil {
		return 0, 0
	}
	for _, needle := range m.needles[b[0]] {
		n, all := needle.in(b)
		if all {
			return n, begun // what follows is shorter
		}
		if begun == 0 && n == len(b) {
			begun = len(needle.text)
		}
	}
	return 0, begun
}

// in returns how many bytes at the beginning of b are the needle or a beginning of it, and whether it is all there.
func (n *needle) in(b []byte) (length int, all bool) {
	at, broken := 0, false // broken: the last byte before length belongs to a line break
	for length < len(b) && at < len(n.text) {
		if b[length] == n.text[at] {
			length, at, broken = length+1, at+1, false
			continue
		}
		space := lineBreak(b[length:])
		if !n.wrapped || broken || space == 0 {
			return length, false
		}
		length, broken = length+space, true
	}
	if broken && at < minLength { // or the end of every line that ends with the needle's first character would be held back
		return 0, false
	}
	return length, at == len(n.text)
}

// maxIndent is how far a line may be indented for it to continue a secret that is broken into lines.
const maxIndent = 32

// lineBreak returns the length of the line break that b begins with, with the indentation after it: \n, \r\n, or these as escaped in JSON, of
// which the end may be missing. It is 0 if there is none.
func lineBreak(b []byte) int {
	for _, ends := range []string{"\r\n", "\n", `\r\n`, `\n`} {
		n := min(len(b), len(ends))
		if string(b[:n]) != ends[:n] {
			continue
		}
		for indent := 0; n < len(b) && indent < maxIndent && (b[n] == ' ' || b[n] == '\t'); indent++ {
			n++
		}
		return n
	}
	return 0
}

// stream masks a text that comes in pieces.
type stream struct {
	held    []byte // what may be the beginning of a secret
	covered int    // how much of the front of held belongs to a secret that has been masked
}

// take returns what can be said after p has come; at the end nothing is held back.
func (s *stream) take(m *Mask, p []byte, end bool) []byte {
	in := append(s.held, p...)
	out := make([]byte, 0, len(in))
	covered, i := s.covered, 0
	for ; i < len(in); i++ {
		whole, begun := m.match(in[i:])
		if begun > 0 && !end {
			break
		}
		if begun > 0 && whole == 0 && len(in)-i >= max(minLength, begun/2) {
			whole = len(in) - i
		}
		if whole > 0 && i >= covered {
			out = append(out, mark...)
		}
		if whole > 0 {
			covered = max(covered, i+whole)
		}
		if i >= covered {
			out = append(out, in[i])
		}
	}
	s.held = append(s.held[:0], in[i:]...)
	s.covered = max(0, covered-i)
	return out
}

type writer struct {
	mask *Mask
	to   io.Writer

	mu     sync.Mutex
	stream stream
}

// Write implements io.Writer.
func (w *writer) Write(p []byte) (int, error) {
	if err := w.take(p, false); err != nil {
		return 0, err
	}
	return len(p), nil
}

// Close implements io.Closer.
func (w *writer) Close() error { return w.take(nil, true) }

func (w *writer) take(p []byte, end bool) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	out := w.stream.take(w.mask, p, end)
	if len(out) == 0 {
		return nil
	}
	_, err := w.to.Write(out)
	return err
}

// forms are the ways in which programs write a value.
func forms(value string) []needle {
	plain := []string{value}
	if lines := strings.FieldsFunc(value, func(r rune) bool { return r == '\n' || r == '\r' }); len(lines) > 1 {
		plain = append(plain, slices.DeleteFunc(lines, func(l string) bool { return len(l) < minLine })...)
	}
	var all []needle
	add := func(wrapped bool, texts ...string) {
		for _, text := range texts {
			all = append(all, needle{text, wrapped})
		}
	}
	for _, text := range plain {
		add(false, text)
		add(true, encoded(text)...)
		add(false, escaped(text)...)
		add(false, inJSON(text)...)
	}
	return all
}

// inJSON is a value in JSON: with characters beyond ASCII as they are, as from Go and JavaScript, or escaped, as from Python and PHP, with
// small or capital digits, as from .NET; with some, all or none of the characters that mean something in HTML escaped; and with \/ as from PHP.
func inJSON(value string) []string {
	const separators = "\u2028\u2029" // which JavaScript took for ends of lines
	var all []string
	for _, html := range []string{"", "<", "<&", "<>&" + separators, "<>&'" + separators, "\"&'+<>`" + separators} {
		for _, digits := range []string{"0123456789abcdef", "0123456789ABCDEF"} {
			for _, ascii := range []bool{false, true} {
				text := quotedAs(value, html, digits, ascii)
				all = append(all, text, strings.ReplaceAll(text, "/", `\/`))
			}
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// quotedAs is a string of JSON without its quotation marks, in which the characters of a set, and with ascii those beyond ASCII, are written as
// \u and four digits.
func quotedAs(value, set, digits string, ascii bool) string {
	short := map[rune]byte{'"': '"', '\\': '\\', '\b': 'b', '\f': 'f', '\n': 'n', '\r': 'r', '\t': 't'}
	var b strings.Builder
	for _, r := range value {
		letter, isShort := short[r]
		switch {
		case isShort && !strings.ContainsRune(set, r):
			b.WriteByte('\\')
			b.WriteByte(letter)
		case r < ' ', strings.ContainsRune(set, r), ascii && r >= utf8.RuneSelf:
			for _, unit := range utf16.Encode([]rune{r}) {
				b.WriteString(`\u`)
				for shift := 12; shift >= 0; shift -= 4 {
					b.WriteByte(digits[unit>>shift&15])
				}
			}
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}

// encoded is the base64 of a value: whole, and as part of something longer, such as user:password, at each of the three places that
// its first byte can have in a group; there, the characters that depend on nothing else.
func encoded(value string) []string {
	var all []string
	for _, code := range []*base64.Encoding{base64.StdEncoding, base64.URLEncoding} {
		all = append(all, code.EncodeToString([]byte(value)), code.WithPadding(base64.NoPadding).EncodeToString([]byte(value)))
		for before := range 3 {
			bits := 8 * (before + len(value))
			whole := code.EncodeToString([]byte(strings.Repeat("\x00", before) + value))
			all = append(all, whole[(8*before+5)/6:bits/6])
		}
	}
	return all
}

// escaped is a value as URLs hold it: by the rules of forms, of paths, of Python and of JavaScript.
func escaped(value string) []string {
	all := []string{url.QueryEscape(value), url.PathEscape(value)}
	for _, safe := range []string{"", "/", "!'()*"} {
		all = append(all, percent(value, safe, "0123456789ABCDEF"), percent(value, safe, "0123456789abcdef"))
	}
	return all
}

// percent escapes all bytes but letters, digits, -._~ and those of safe.
func percent(value, safe, digits string) string {
	var b strings.Builder
	for i := range len(value) {
		c := value[i]
		switch {
		case c >= '0' && c <= '9', c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', strings.IndexByte("-._~"+safe, c) >= 0:
			b.WriteByte(c)
		default:
			b.WriteByte('%')
			b.WriteByte(digits[c>>4])
			b.WriteByte(digits[c&15])
		}
	}
	return b.String()
}
