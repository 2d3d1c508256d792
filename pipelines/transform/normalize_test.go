package transform

import (
	"strings"
	"testing"
	"unicode"

	"pgregory.net/rapid"
)

// plainVisible and plainCollapse are makeVisible and collapse as one would write them down; joiners and tags have a test of their own.
func plainVisible(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\t':
			return r
		case strings.ContainsRune("\r\v\f\u0085\u2028\u2029", r):
			return '\n'
		case unicode.In(r, unicode.Prepended_Concatenation_Mark, unicode.Egyptian_Hieroglyphs):
			return r
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
			"\ufeff", "\U000e0041", "\u0600", "\u06dd", "\U00013430", "\x00", "\x7f", "\x9f", "\xff", "\xe2\x80", "\ufffd", "word", "é", "人", "\U0001f600", "e\u0301",
		}),
		rapid.String(),
	)
	rapid.Check(t, func(t *rapid.T) {
		s := strings.NewReplacer("\u200c", "", "\u200d", "", "\u180e", "", "\U0001f3f4", "").Replace(strings.Join(rapid.SliceOf(piece).Draw(t, "text"), ""))
		if got, want := makeVisible(s), plainVisible(s); got != want {
			t.Fatalf("makeVisible(%+q) = %+q, want %+q", s, got, want)
		}
		if got, want := collapse(s), plainCollapse(s); got != want {
			t.Fatalf("collapse(%+q) = %+q, want %+q", s, got, want)
		}
	})
}

// What stays of joiners, marks and tags, and what goes. Written in escapes, since most is not seen.
func TestJoiners(t *testing.T) {
	const (
		wave, england = "\U0001F3F4", "\U000E0067\U000E0062\U000E0065\U000E006E\U000E0067\U000E007F"
		same          = "="
	)
	for _, c := range []struct{ name, text, want string }{
		{"Persian prefix", "\u0645\u06CC\u200C\u0631\u0648\u0645", same},
		{"Persian, ZWNJ twice", "\u0645\u06CC\u200C\u200C\u0631\u0648\u0645", "\u0645\u06CC\u200C\u0631\u0648\u0645"},
		{"Persian, ZWNJ and a mark of direction", "\u0645\u06CC\u200C\u200F\u0631", "\u0645\u06CC\u200C\u0631"},
		{"Persian plural of a Latin word", "PDF\u200C\u0647\u0627", same},
		{"Persian number of years", "\u06F5\u06F0\u200C\u0633\u0627\u0644\u0647", same},
		{"Persian, ZWNJ before a space", "\u0645\u06CC\u200C \u0631\u0648\u0645", "\u0645\u06CC \u0631\u0648\u0645"},
		{"Persian, ZWNJ before a line end", "\u0645\u06CC\u200C\n\u0631", "\u0645\u06CC\n\u0631"},
		{"Persian, ZWNJ after punctuation", "\u00BB\u200C\u0647\u0627", "\u00BB\u0647\u0627"},
		{"Persian year of the Hijra", "\u06F1\u06F4\u06F0\u06F3 \u0647\u200D.\u0634", same},
		{"Sinhala sri", "\u0DC1\u0DCA\u200D\u0DBB\u0DD3", same},
		{"Devanagari half form", "\u0915\u094D\u200D\u0937", same},
		{"Devanagari explicit virama", "\u0915\u094D\u200C\u0937", same},
		{"Devanagari, ZWNJ after a virama at the end", "\u0915\u094D\u200C", "\u0915\u094D"},
		{"Devanagari, ZWJ without a virama", "\u0915\u200D\u0937", "\u0915\u0937"},
		{"Malayalam chillu as it was written before Unicode 5.1", "\u0D05\u0D35\u0D28\u0D4D\u200D ", same},
		{"Bengali ya after ra", "\u09B0\u200D\u09CD\u09AF", same},
		{"Mongolian vowel separator", "\u182A\u1820\u1838\u180E\u1820", same},
		{"Mongolian vowel separator at the end", "\u182A\u180E", "\u182A"},
		{"Latin", "wo\u200Cr\u200Dd", "word"},
		{"Cyrillic", "\u0441\u043B\u200C\u043E\u0432\u200D\u043E", "\u0441\u043B\u043E\u0432\u043E"},
		{"Han", "\u4E2D\u200D\u6587", "\u4E2D\u6587"},
		{"Thai", "\u0E44\u200B\u0E17\u200C\u0E22", "\u0E44\u0E17\u0E22"},
		{"at the ends", "\u200Da\u200C", "a"},
		{"family", "\U0001F469\u200D\U0001F469\u200D\U0001F467", same},
		{"with a skin tone and a sign", "\U0001F9D1\U0001F3FD\u200D\u2695\uFE0F", same},
		{"burning heart", "\u2764\uFE0F\u200D\U0001F525", same},
		{"head shaking, whose arrow is mathematical", "\U0001F642\u200D\u2194\uFE0F", same},
		{"one that Unicode 15 lacks", "\U0001FAE9\u200D\U0001FADF", same},
		{"ZWJ after a picture", "\U0001F469\u200D and", "\U0001F469 and"},
		{"ZWJ between signs of arithmetic", "1+\u200D+1", "1++1"},
		{"flag of England", wave + england + "!", same},
		{"tags without an end", wave + england[:12] + "!", wave + "!"},
		{"tags without a flag", "a" + england, "a"},
		{"tags that spell more", wave + england[:20] + england, wave},
		{"Arabic number, year and end of verse", "\u0600\u0661 \u0601\u0662 \u06DD\u0663", same},
		{"Syriac abbreviation and Kaithi number", "\u070F\u0710 \U000110BD\U00011081", same},
		{"Egyptian joiner", "\U00013080\U00013430\U00013081", same},
		{"marks of direction", "\u200Fa\u202Eb\u202C\u2067c\u2069", "abc"},
		{"soft hyphen, word joiner, byte order mark", "\uFEFFwo\u00ADr\u2060d", "word"},
		{"annotation", "\uFFF9a\uFFFAb\uFFFB", "ab"},
	} {
		if c.want == same {
			c.want = c.text
		}
		got := makeVisible(c.text)
		if got != c.want {
			t.Errorf("%s: %+q became %+q, want %+q", c.name, c.text, got, c.want)
		}
		if again := makeVisible(got); again != got {
			t.Errorf("%s: a second time it became %+q", c.name, again)
		}
	}
}

// Nothing that is done twice does more.
func TestNormalizeTwice(t *testing.T) {
	piece := rapid.SampledFrom([]string{
		"\u200c", "\u200d", "\u180e", "\u200b", "\U0001f3f4", "\U000e0067", "\U000e007f", "\U0001f469", "\ufe0f", "\u0645", "\u094d", "\u0915",
		"\u0dca", "\u182a", "5", "a", " ", "\n", "\r", "\u0600",
	})
	rapid.Check(t, func(t *rapid.T) {
		once := makeVisible(strings.Join(rapid.SliceOf(piece).Draw(t, "text"), ""))
		if twice := makeVisible(once); twice != once {
			t.Fatalf("%+q became %+q", once, twice)
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
