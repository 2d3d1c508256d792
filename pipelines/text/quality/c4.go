package quality

import (
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/sluiceml/sluice/dsl/transform"
)

// c4Names are C4's rules in the order in which they are applied.
var c4Names = []string{"curly_bracket", "lorem_ipsum", "sentences"}

const (
	loremIpsum = "lorem ipsum"
	javascript = "javascript"
)

// policies are the phrases that mark lines about terms and cookies (arXiv:1910.10683, section 2.2; "use of cookies" is only in its code).
var policies = []string{"terms of use", "privacy policy", "cookie policy", "uses cookies", "use of cookies", "use cookies"}

// citation matches what C4 removes from lines: citation marks of Wikipedia.
var citation = regexp.MustCompile(`\[(?:\d*|edit|citation needed)\]`)

type c4 struct{ transform.C4Rules }

func (c c4) evaluate(text string) (edited, failed string) {
	lower := strings.ToLower(text)
	phrases := c.phrases(lower)
	lorem := c.LoremIpsum && strings.Contains(lower, loremIpsum)
	var b strings.Builder
	b.Grow(len(text))
	sentences := 0
	for line := range strings.SplitSeq(text, "\n") {
		line = strings.TrimSpace(line)
		words, longest := countWords(line)
		if longest > c.MaxWordChars {
			continue
		}
		if strings.Contains(line, "[") {
			line = citation.ReplaceAllLiteralString(line, "")
			words, _ = countWords(line)
		}
		if c.TerminalPunctuation && !endsSentence(line) || words < c.MinWordsPerLine {
			continue
		}
		switch found := firstOf(phrases, line); {
		case lorem && strings.Contains(strings.ToLower(line), loremIpsum):
			return text, "lorem_ipsum"
		case found == javascript:
			continue
		case c.CurlyBracket && strings.Contains(line, "{"):
			return text, "curly_bracket"
		case found != "":
			continue
		}
		if b.Len() > 0 {
			b.WriteByte('\n')
		}
		b.WriteString(line)
		sentences += countSentences(line)
	}
	if sentences < c.MinSentences {
		return text, "sentences"
	}
	return b.String(), ""
}

// endsSentence reports whether a line ends as C4 requires: with a period, exclamation mark, question mark or closing quotation mark of any
// script, and not with an ellipsis.
func endsSentence(line string) bool {
	last := lastRune(line)
	return (last == '"' || last == '”' || isTerminal(last)) && !strings.HasSuffix(line, "...")
}

// phrases returns the phrases that exclude a line and that occur anywhere in the lower-case text; usually there are none.
func (c c4) phrases(lower string) []string {
	var found []string
	if c.Javascript && strings.Contains(lower, javascript) {
		found = append(found, javascript)
	}
	for _, phrase := range policies {
		if c.Policy && strings.Contains(lower, phrase) {
			found = append(found, phrase)
		}
	}
	return found
}

// firstOf returns the first of the phrases that a line contains, or "".
func firstOf(phrases []string, line string) string {
	if len(phrases) == 0 {
		return ""
	}
	line = strings.ToLower(line)
	if i := slices.IndexFunc(phrases, func(phrase string) bool { return strings.Contains(line, phrase) }); i >= 0 {
		return phrases[i]
	}
	return ""
}

// countSentences counts the sentences of a line. A sentence ends at a mark that is followed by white space or the end of the line, with
// quotation marks or brackets in between; marks of other scripts end one anywhere. An unfinished sentence at the end counts, too.
func countSentences(line string) int {
	n := 0
	marked, open := false, false // after a mark; in a sentence
	for _, r := range line {
		switch {
		case 'a' <= r|0x20 && r|0x20 <= 'z': // the common case
			marked, open = false, true
		case r == '.' || r == '!' || r == '?':
			marked = true
		case unicode.IsSpace(r):
			if marked && open {
				n, open = n+1, false
			}
			marked = false
		case strings.ContainsRune(`"'”’)]»」』）】》`, r):
		case r >= utf8.RuneSelf && isTerminal(r):
			if open {
				n, open = n+1, false
			}
		default:
			marked, open = false, true
		}
	}
	if open {
		n++
	}
	return n
}
