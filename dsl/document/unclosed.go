package document

import (
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"
)

// openQuote is a quote that begins a value and is not closed on its line, which has been blanked.
var openQuote = regexp.MustCompile(`^(?:[^#]|\S#)*?(?:: |- |[\[{,] ?)(["'])`)

// unclosedQuote reports a quote that is open at the end of its line, where the line below is an entry of the same block or of one around it.
func (s *Source) unclosedQuote() bool {
	for n := 1; n < len(s.Lines); n++ {
		text, below := blankQuoted(s.line(n)), s.line(n+1)
		m := openQuote.FindStringSubmatchIndex(text)
		if m == nil || !blockEntry.MatchString(below) || !blockEntry.MatchString(text) || entryInBlock(below) > entryInBlock(text) {
			continue
		}
		s.Add(SeverityError, n, utf8.RuneCountInString(text[:m[2]])+1, "yaml", "close it with `"+text[m[2]:m[3]]+"`", "this is not valid YAML: this quote is not closed")
		return true
	}
	return false
}

// unclosed reports a bracket that is open at the end of its line, where the line below is an entry of a block.
func (s *Source) unclosed(problem string, line int) bool {
	if !slices.ContainsFunc([]string{flowList, flowMapping, expectedKey, expectedNode, unexpectedColon}, func(p string) bool { return strings.Contains(problem, p) }) {
		return false
	}
	for n := max(1, line-40); n <= min(line+2, len(s.Lines)-1); n++ {
		text, below := blankQuoted(s.line(n)), blankQuoted(s.line(n+1))
		if !blockEntry.MatchString(text) || !blockEntry.MatchString(below) || entryInBlock(below) > entryInBlock(text) || s.isInFlow(n, 0) {
			continue
		}
		at := openBracket(strings.TrimRight(text, " "))
		if at < 0 {
			continue
		}
		s.Add(SeverityError, n, utf8.RuneCountInString(text[:at])+1, "yaml", "close it with `"+closing[text[at]]+"`", "this is not valid YAML: this `"+text[at:at+1]+"` is not closed")
		return true
	}
	return false
}

var closing = map[byte]string{'[': "]", '{': "}"}

// openBracket is the place of the innermost bracket that is open at the end of a line; -1 where there is none, it goes on there, or another
// one is wrong.
func openBracket(text string) int {
	var open []int
	for i := range len(text) {
		switch {
		case closing[text[i]] != "":
			open = append(open, i)
		case text[i] != ']' && text[i] != '}':
		case len(open) == 0 || closing[text[open[len(open)-1]]] != text[i:i+1]:
			return -1
		default:
			open = open[:len(open)-1]
		}
	}
	if len(open) == 0 || strings.HasSuffix(text, ",") || open[len(open)-1] == len(text)-1 {
		return -1
	}
	return open[len(open)-1]
}

// blockEntry is a line that is an entry of a block.
var blockEntry = regexp.MustCompile(`^\s*(?:- +)*"?[\w.-]+"?:(?: .*)?$|^\s*- .*$`)

// entryInBlock is how far the first key or item of a line is indented.
func entryInBlock(text string) int { return len(text) - len(strings.TrimLeft(text, " ")) }

var (
	bareKey   = regexp.MustCompile(`^\s*(?:- )?([a-z_]+)$`)
	plainItem = regexp.MustCompile(`^(\s*)- [^"'\[{|>&*!#\s][^:#]*$`)
	entryKey  = regexp.MustCompile(`^(\s*)[a-z_]+: `)
)

// bareAbove reports a key without its `:`, and an item without its dash, which the line above continues when YAML reads it.
func (s *Source) bareAbove(problem string, line int) bool {
	if !strings.Contains(problem, unexpectedColon) {
		return false
	}
	above, below := strings.TrimRight(s.line(line-1), " "), s.line(line)
	if m := bareKey.FindStringSubmatch(above); m != nil && entryInBlock(below) > entryInBlock(above) {
		s.Add(SeverityError, line-1, entryInBlock(above)+1, "yaml", "write `"+m[1]+":`", "this is not valid YAML: a key has no `:`")
		return true
	}
	item, entry := plainItem.FindStringSubmatch(above), entryKey.FindStringSubmatch(below)
	if item == nil || entry == nil || len(entry[1]) != len(item[1])+2 {
		return false
	}
	s.Add(SeverityError, line, len(entry[1])+1, "yaml", "write `- ` before it", "this is not valid YAML: an item of a list begins with `- `")
	return true
}
