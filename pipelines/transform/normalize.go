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

// compileNormalize makes equal text equal bytes.
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
			s = mojibake.Repair(s) // first: it needs the control characters
		}
		s = normal.String(makeVisible(s))
		if letters == "lower" {
			// Both ways round, because NFKC makes capitals (of ℂ, say) and lower case can undo a normal form.
			s = normal.String(lower(s))
		}
		if whitespace == "collapse" {
			s = collapse(s)
		}
		return s
	})
}

// finalSigma is a capital sigma at the end of a word, where the small one has another form.
var finalSigma = regexp.MustCompile(`(\pL\pM*)Σ(\PL|$)`)

// lower returns s in small letters.
func lower(s string) string {
	if strings.Contains(s, "Σ") {
		s = finalSigma.ReplaceAllString(s, "${1}ς${2}")
	}
	return strings.ToLower(s)
}

// noticed are the characters of Unicode's first 65,536 that makeVisible does something about, one bit for each.
var noticed = func() (bits [1 << 16 / 64]uint64) {
	for r := range rune(1 << 16) {
		if hidden(r) && r != '\n' && r != '\t' || r == '\u2028' || r == '\u2029' {
			bits[r/64] |= 1 << (r % 64)
		}
	}
	return bits
}()

// hidden reports whether nothing is seen of a character: controls, and those format characters that are by default ignorable (UAX #44,
// Default_Ignorable_Code_Point), or annotate a line between the lines. Prepended_Concatenation_Marks, such as the Arabic number sign, and
// the controls that build Egyptian quadrats are format characters too, but are seen.
func hidden(r rune) bool {
	return unicode.In(r, unicode.Cc, unicode.Cf) && !unicode.In(r, unicode.Prepended_Concatenation_Mark, unicode.Egyptian_Hieroglyphs)
}

// makeVisible makes line separators LF and removes control and invisible format characters, which only serve to make equal text look
// different to a program. Those that change how their neighbours look stay.
func makeVisible(s string) string {
	at := firstNoticed(s)
	if at == len(s) {
		return s
	}
	var b strings.Builder
	b.Grow(len(s))
	before := rune(-1) // the last that stays; -1 at the start
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

// firstNoticed returns where the first character is that makeVisible does not pass by, or the length of s.
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

// collapse makes runs of spaces one space, trims lines, and keeps at most one empty line in a row and none at the ends.
func collapse(s string) string {
	var b strings.Builder
	b.Grow(len(s))
	breaks := 0 // between the word before and the next
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

// spaceAt returns the length of the space that s begins with, or 0. Of a character of several bytes only the first begins one.
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
