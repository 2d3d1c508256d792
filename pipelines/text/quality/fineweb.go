package quality

import (
	"strings"
	"unicode/utf8"

	"github.com/sluiceml/sluice/dsl/transform"
)

// fineWebNames are FineWeb's rules in the order in which they are applied.
var fineWebNames = []string{"punctuated_lines", "short_lines", "duplicate_chars", "newlines"}

type fineWeb struct{ transform.FineWebRules }

func (f fineWeb) evaluate(text string) (edited, failed string) {
	lines := filledLines(text)
	_, dupChars := duplicates(lines)
	breaks := strings.Count(text, "\n")
	words, _ := countWords(text)
	punctuated := func(line string) bool { return isTerminal(lastRune(line)) }
	short := func(line string) bool {
		return len(line) <= f.ShortLine || utf8.RuneCountInString(line) <= f.ShortLine
	}
	switch {
	case len(lines) == 0, share(countWhere(lines, punctuated), len(lines)) < float64(f.MinPunctuatedLines):
		return text, "punctuated_lines"
	case share(countWhere(lines, short), len(lines)) > float64(f.MaxShortLines):
		return text, "short_lines"
	case share(dupChars, utf8.RuneCountInString(text)-breaks) > float64(f.MaxDuplicateChars):
		return text, "duplicate_chars"
	case share(breaks, words) > float64(f.MaxNewlines):
		return text, "newlines"
	}
	return text, ""
}
