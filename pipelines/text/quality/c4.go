package quality

import (
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/sluiceml/sluice/dsl/transform"
)

// c4Names are C4's rules in the order they are applied.
var c4Names = []string{"curly_bracket", "lorem_ipsum", "sentences"}

// policies are the phrases of lines about terms and cookies (arXiv:1910.10683, section 2.2; "use of cookies" is of the code).
var policies = []string{"terms of use", "privacy policy", "cookie policy", "uses cookies", "use of cookies", "use cookies"}

// citation is what C4 removes from a line: the marks of Wikipedia.
var citation = regexp.MustCompile(`\[(?:\d*|edit|citation needed)\]`)

// A line ends a sentence with a period, an exclamation mark, a question mark or an end quotation mark.
var (
	isTerminated = endsWith(".", "!", "?", `"`, "”")
	isCutOff     = endsWith("...", "…")
)

type c4 struct{ transform.C4Rules }

func (c c4) evaluate(text string) (edited, failed string) {
	if c.CurlyBracket && strings.Contains(text, "{") {
		return text, "curly_bracket"
	}
	lower := strings.ToLower(text)
	if c.LoremIpsum && strings.Contains(lower, "lorem ipsum") {
		return text, "lorem_ipsum"
	}
	phrases := c.phrases(lower)
	var b strings.Builder
	b.Grow(len(text))
	sentences := 0
	for line := range strings.SplitSeq(text, "\n") {
		line = strings.TrimSpace(line)
		if strings.Contains(line, "[") {
			line = strings.TrimSpace(citation.ReplaceAllLiteralString(line, ""))
		}
		if !c.keep(line) || mentions(line, phrases) {
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

// keep reports whether a line stays.
func (c c4) keep(line string) bool {
	if c.TerminalPunctuation && (!isTerminated(line) || isCutOff(line)) {
		return false
	}
	words := 0
	for w := range strings.FieldsSeq(line) {
		if len(w) > c.MaxWordChars && utf8.RuneCountInString(w) > c.MaxWordChars {
			return false
		}
		words++
	}
	return words >= c.MinWordsPerLine
}

// phrases returns those phrases that lines are left out for and that the text, in small letters, has somewhere: mostly none.
func (c c4) phrases(lower string) []string {
	var found []string
	if c.Javascript && strings.Contains(lower, "javascript") {
		found = append(found, "javascript")
	}
	for _, phrase := range policies {
		if c.Policy && strings.Contains(lower, phrase) {
			found = append(found, phrase)
		}
	}
	return found
}

// mentions reports whether a line has one of the phrases.
func mentions(line string, phrases []string) bool {
	if len(phrases) == 0 {
		return false
	}
	line = strings.ToLower(line)
	return slices.ContainsFunc(phrases, func(phrase string) bool { return strings.Contains(line, phrase) })
}

// countSentences counts the ends of sentences in a line: marks that white space or the line's end follows, with quotation marks or
// brackets between. What is left at the end counts too.
func countSentences(line string) int {
	n := 0
	marked, open := false, false // after a mark; in a sentence
	for _, r := range line {
		switch {
		case 'a' <= r|0x20 && r|0x20 <= 'z': // most of them
			marked, open = false, true
		case r == '.' || r == '!' || r == '?':
			marked = true
		case unicode.IsSpace(r):
			if marked && open {
				n, open = n+1, false
			}
			marked = false
		case strings.ContainsRune(`"'”’)]»`, r):
		default:
			marked, open = false, true
		}
	}
	if open {
		n++
	}
	return n
}
