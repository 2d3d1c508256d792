package transform

import (
	"strings"
	"testing"
	"unicode"

	"pgregory.net/rapid"
)

// plainVisible and plainCollapse are makeVisible and collapse as one would write them down.
func plainVisible(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\t':
			return r
		case strings.ContainsRune("\r\v\f\u0085\u2028\u2029", r):
			return '\n'
		case unicode.In(r, unicode.Cc, unicode.Cf):
			return -1
		}
		return r
	}, strings.ReplaceAll(s, "\r\n", "\n"))
}

func plainCollapse(s string) string {
	var lines []string
	for line := range strings.SplitSeq(s, "\n") {
		line = strings.Join(strings.Fields(line), " ")
		if line != "" || len(lines) > 0 && lines[len(lines)-1] != "" {
			lines = append(lines, line)
		}
	}
	return strings.Trim(strings.Join(lines, "\n"), "\n")
}

func TestNormalizeAsPlain(t *testing.T) {
	piece := rapid.OneOf(
		rapid.SampledFrom([]string{
			" ", "\t", "\n", "\r\n", "\r", "\v", "\f", "\u0085", "\u00a0", "\u1680", "\u2003", "\u2028", "\u2029", "\u3000", "\u200b", "\u00ad",
			"\ufeff", "\U000e0041", "\x00", "\x7f", "\x9f", "\xff", "\xe2\x80", "\ufffd", "word", "é", "人", "\U0001f600", "e\u0301",
		}),
		rapid.String(),
	)
	rapid.Check(t, func(t *rapid.T) {
		s := strings.Join(rapid.SliceOf(piece).Draw(t, "text"), "")
		if got, want := makeVisible(s), plainVisible(s); got != want {
			t.Fatalf("makeVisible(%+q) = %+q, want %+q", s, got, want)
		}
		if got, want := collapse(s), plainCollapse(s); got != want {
			t.Fatalf("collapse(%+q) = %+q, want %+q", s, got, want)
		}
	})
}

func BenchmarkNormalize(b *testing.B) {
	text := strings.Repeat("Some words of a  text, and é once in a while.\r\n", 45)
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		collapse(makeVisible(text))
	}
}
