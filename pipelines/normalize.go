package pipelines

import (
	"strings"
	"unicode"

	"golang.org/x/text/unicode/norm"

	"github.com/sluiceml/sluice/dsl"
	"github.com/sluiceml/sluice/pipelines/mojibake"
)

// compileNormalize makes equal text equal bytes.
func compileNormalize(c dsl.NormalizeText, _ map[string]any) (rowFunc, error) {
	form, err := oneOf("form", c.Form, "NFC", "NFKC")
	if err != nil {
		return nil, err
	}
	whitespace, err := oneOf("whitespace", c.Whitespace, "collapse", "keep")
	if err != nil {
		return nil, err
	}
	letters, err := oneOf("case", c.Case, "keep", "lower")
	if err != nil {
		return nil, err
	}
	mojibakes, err := oneOf("mojibake", c.Mojibake, "keep", "repair")
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
		s = strings.ReplaceAll(s, "\r\n", "\n")
		s = normal.String(strings.Map(visible, s))
		if letters == "lower" {
			// Both ways round, because NFKC makes capitals (of ℂ, say) and lower case can undo a normal form.
			s = normal.String(strings.ToLower(s))
		}
		if whitespace == "collapse" {
			s = collapse(s)
		}
		return s
	})
}

// visible maps line separators to LF and removes control and invisible format characters, which only serve to make equal text
// look different to a program.
func visible(r rune) rune {
	switch {
	case r == '\n' || r == '\t':
		return r
	case r == '\r' || r == '\v' || r == '\f' || r == '\u0085' || r == '\u2028' || r == '\u2029':
		return '\n'
	case unicode.Is(unicode.Cc, r), unicode.Is(unicode.Cf, r):
		return -1
	}
	return r
}

// collapse makes runs of spaces one space, trims lines, and keeps at most one empty line in a row and none at the ends.
func collapse(s string) string {
	var b strings.Builder
	b.Grow(len(s))
	empty := 0
	for line := range strings.SplitSeq(s, "\n") {
		words := strings.Fields(line)
		if len(words) == 0 {
			empty++
			continue
		}
		if b.Len() > 0 {
			b.WriteString("\n\n"[:min(empty+1, 2)])
		}
		empty = 0
		for i, word := range words {
			if i > 0 {
				b.WriteByte(' ')
			}
			b.WriteString(word)
		}
	}
	return b.String()
}
