package transform

import (
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"

	"github.com/sluiceml/sluice/dsl/transform"
	"github.com/sluiceml/sluice/pipelines/rows"
	"github.com/sluiceml/sluice/pipelines/text/mojibake"
)

// compileNormalize compiles a NormalizeText, which gives equal texts equal bytes.
func compileNormalize(c transform.NormalizeText, _ map[string]any) (rowFunc, error) {
	form, err := rows.OneOf("form", c.Form, "NFC", "NFKC")
	if err != nil {
		return nil, err
	}
	whitespace, err := rows.OneOf("whitespace", c.Whitespace, "collapse", "keep")
	if err != nil {
		return nil, err
	}
	letters, err := rows.OneOf("case", c.Case, "keep", "lower")
	if err != nil {
		return nil, err
	}
	mojibakes, err := rows.OneOf("mojibake", c.Mojibake, "keep", "repair")
	if err != nil {
		return nil, err
	}
	normal := norm.NFC
	if form == "NFKC" {
		normal = norm.NFKC
	}
	return mapText(c.Fields, func(s string) string {
		if mojibakes == "repair" {
			s = mojibake.Repair(s) // first, since it needs the control characters
		}
		s = normal.String(makeVisible(s))
		if letters == "lower" {
			// Normalize again: NFKC can produce capitals (from ℂ, for example), and lower-casing can undo a normal form.
			s = normal.String(lower(s))
		}
		if whitespace == "collapse" {
			s = collapse(s)
		}
		return s
	})
}

// finalSigma matches a capital sigma at the end of a word, where the lower-case letter has another form.
var finalSigma = regexp.MustCompile(`(\pL\pM*)Σ(\PL|$)`)

// lower returns s in lower case.
func lower(s string) string {
	if strings.Contains(s, "Σ") {
		s = finalSigma.ReplaceAllString(s, "${1}ς${2}")
	}
	return strings.ToLower(s)
}

// noticed has a bit for each BMP character that makeVisible changes or examines.
var noticed = func() (bits [1 << 16 / 64]uint64) {
	for r := range rune(1 << 16) {
		if hidden(r) && r != '\n' && r != '\t' || r == '\u2028' || r == '\u2029' {
			bits[r/64] |= 1 << (r % 64)
		}
	}
	return bits
}()

// hidden reports whether a character is invisible: control characters, and format characters that are ignorable by default (UAX #44,
// Default_Ignorable_Code_Point) or annotate a line. Prepended_Concatenation_Marks, such as the Arabic number sign, and the controls that
// build Egyptian quadrats are format characters, too, but visible.
func hidden(r rune) bool {
	return unicode.In(r, unicode.Cc, unicode.Cf) && !unicode.In(r, unicode.Prepended_Concatenation_Mark, unicode.Egyptian_Hieroglyphs)
}

// makeVisible converts line separators to LF, and removes control characters and invisible format characters, which only make equal texts
// look different to a program. It keeps those that change how their neighbors look.
func makeVisible(s string) string {
	at := firstNoticed(s)
	if at == len(s) {
		return s
	}
	var b strings.Builder
	b.Grow(len(s))
	before := rune(-1) // the last character kept; -1 at the start
	for at < len(s) {
		if at > 0 {
			before, _ = utf8.DecodeLastRuneInString(s[:at])
		}
		b.WriteString(s[:at])
		r, n := utf8.DecodeRuneInString(s[at:])
		keep := ""
		switch r {
		case '\r':
			if !strings.HasPrefix(s[at+1:], "\n") {
				keep = "\n"
			}
		case '\v', '\f', '\u0085', '\u2028', '\u2029':
			keep = "\n"
		case utf8.RuneError:
			keep = "\uFFFD"
		case zwnj, zwj, mongolianVowelSeparator:
			if joins(r, before, firstVisible(s[at+n:])) {
				keep = s[at : at+n]
			}
		default:
			if tags, region := leadingTags(s[at:]); tags > 0 {
				n = tags
				if region && before == blackFlag {
					keep = s[at : at+tags]
				}
			}
		}
		if keep != "" {
			b.WriteString(keep)
			before, _ = utf8.DecodeLastRuneInString(keep)
		}
		s = s[at+n:]
		at = firstNoticed(s)
	}
	b.WriteString(s)
	return b.String()
}

// firstNoticed returns the index of the first character that makeVisible must examine, or len(s).
func firstNoticed(s string) int {
	for i := 0; i < len(s); {
		c := s[i]
		switch {
		case ' ' <= c && c < 0x7f || c == '\n' || c == '\t':
			i++
			continue
		case c < utf8.RuneSelf:
			return i
		}
		r, n := utf8.DecodeRuneInString(s[i:])
		switch {
		case r < 1<<16 && noticed[r/64]>>(r%64)&1 == 1, r >= 1<<16 && hidden(r), r == utf8.RuneError && n == 1:
			return i
		}
		i += n
	}
	return len(s)
}

// collapse replaces runs of spaces by one space, trims lines, and keeps at most one empty line in a row and none at the ends.
func collapse(s string) string {
	var b strings.Builder
	b.Grow(len(s))
	breaks := 0 // line breaks since the last word
	for i := 0; i < len(s); {
		if n := spaceAt(s[i:]); n > 0 {
			if s[i] == '\n' {
				breaks++
			}
			i += n
			continue
		}
		start := i
		for i < len(s) && (' ' < s[i] && s[i] < 0xc2 || spaceAt(s[i:]) == 0) {
			i++
		}
		switch {
		case b.Len() == 0:
		case breaks == 0:
			b.WriteByte(' ')
		default:
			b.WriteString("\n\n"[:min(breaks, 2)])
		}
		b.WriteString(s[start:i])
		breaks = 0
	}
	return b.String()
}

// spaceAt returns the length of the space character at the start of s, or 0.
func spaceAt(s string) int {
	switch c := s[0]; {
	case c == ' ' || '\t' <= c && c <= '\r':
		return 1
	case c < 0xc2 || c > 0xe3: // the other spaces are between U+0085 and U+3000
		return 0
	}
	if r, n := utf8.DecodeRuneInString(s); unicode.IsSpace(r) {
		return n
	}
	return 0
}
