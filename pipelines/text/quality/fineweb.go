package quality

import (
	"strings"
	"unicode/utf8"

	"github.com/sluiceml/sluice/dsl/transform"
)

// fineWebNames are FineWeb's rules in the order they are applied.
var fineWebNames = []string{"punctuated_lines", "short_lines", "duplicate_chars", "newlines"}

// isPunctuated reports whether a line ends with punctuation: FineWeb's . ! ? ' " and what other scripts write for them.
var isPunctuated = endsWith(".", "!", "?", "'", `"`, "…", "”", "’", "»", "。", "！", "？", "؟", "۔", "।")

type fineWeb struct{ transform.FineWebRules }

func (f fineWeb) evaluate(text string) (edited, failed string) {
	lines := appendLines(nil, text)
	_, dupChars := duplicates(lines)
	chars := utf8.RuneCountInString(text) - strings.Count(text, "\n")
	words := 0
	for range strings.FieldsSeq(text) {
		words++
	}
	short := func(line string) bool {
		return len(line) <= f.ShortLine || utf8.RuneCountInString(line) <= f.ShortLine
	}
	switch {
	case share(countWhere(lines, isPunctuated), len(lines)) <= float64(f.MinPunctuatedLines):
		return text, "punctuated_lines"
	case share(countWhere(lines, short), len(lines)) > float64(f.MaxShortLines):
		return text, "short_lines"
	case share(dupChars, chars) > float64(f.MaxDuplicateChars):
		return text, "duplicate_chars"
	case share(max(len(lines)-1, 0), words) > float64(f.MaxNewlines):
		return text, "newlines"
	}
	return text, ""
}
