package document

import (
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"
)

// yamlCause is one of the commonest reasons for which a document is no YAML. The parser tells where it gave up, mostly in words that are
// about something else; the text around that place says more.
type yamlCause struct {
	// problems are parts of what the parser says when this may be the reason; none: whatever it says.
	problems []string
	// in matches the line, what it captures first is what is wrong; if it captures something within that, this is its place. Of a bare
	// cause what is in quotes has been blanked out.
	in      *regexp.Regexp
	bare    bool
	message string
	// hint may hold %q, for what was captured as a text in quotes that YAML reads, and %s, for what was captured.
	hint string
}

const (
	flowList, flowMapping = "did not find expected ',' or ']'", "did not find expected ',' or '}'"
	expectedKey           = "did not find expected key"
	expectedDash          = "did not find expected '-' indicator"
	expectedColon         = "could not find expected ':'"
)

var yamlCauses = []yamlCause{
	{
		nil, regexp.MustCompile(`^(<{7} .*|={7}$|>{7} .*)`), false,
		"a merge conflict is left in the document", "keep one of the two sides, and remove the lines that begin with <<<<<<<, ======= and >>>>>>>",
	},
	{
		[]string{flowList, flowMapping, expectedKey, expectedDash},
		regexp.MustCompile(`(?:^|[\s\[{,])('[^']*[[:alpha:]]'[[:alpha:]][^']*'?)`), false,
		"a string in single quotes ends at the apostrophe in it", "double the apostrophe, %s, or use double quotes",
	},
	{
		[]string{flowList, flowMapping},
		regexp.MustCompile(`(?:[\[{,]|: )\s*([^\s\[\]{},:]*\$\{[^}]*\}[^\s,\]}]*)`), true,
		"within [ ] and { } YAML reads the braces of `${...}` as its own", "quote the value: %q",
	},
	{
		[]string{flowList, flowMapping},
		regexp.MustCompile(`(?:[{,]|: )\s*([^{},:]*\.\?[^{},]*)`), true,
		"within { } YAML reads the `?` of `.?` as its own", "quote the expression: %q",
	},
	{
		[]string{flowList, flowMapping},
		regexp.MustCompile(`: ([[:alpha:]](?:[^{},\[\]]*\w)?(\[)[^{},]*)`), true,
		"within { } YAML reads the brackets of an index as its own", "quote the expression: %q",
	},
	{
		[]string{flowList, flowMapping}, // as in `message: go on?`
		regexp.MustCompile(`(?:[\[{,]|: )\s*([^\s\[\]{},:][^\[\]{},:]*\?[^\[\]{},]*)`), true,
		"within [ ] and { } YAML reads a `?` as its own", "quote the value: %q",
	},
	{
		[]string{flowList, flowMapping, expectedKey, expectedDash},
		regexp.MustCompile(`("[^"]*\$\{[^"}]*")\w`), false,
		"a string in double quotes ends at the double quote in its expression", "within it use single quotes: ${params.m['a']}",
	},
	{
		[]string{expectedKey, expectedDash},
		regexp.MustCompile(`^\s*(?:- )*(?:[\w.-]+:\s+)?("[^"]*"\s+[^\s#:,].*|'[^']*'\s+[^\s#:,].*)$`), false,
		"the value begins with a quote and continues after the closing quote", "put the whole value in %s",
	},
	{
		[]string{expectedKey, expectedDash, expectedColon},
		regexp.MustCompile(`^\s*(?:- )*([a-z_]+:[^\s:/].*)$`), false,
		"there is no space after the `:` of a key", "write a space after it: `%s`",
	},
	{
		[]string{"did not find expected alphabetic or numeric character"},
		regexp.MustCompile(`(?:[\s\[{,]|^)(\*[^\w\s][^\s,\]}]*)`), true,
		"YAML reads a value that begins with `*` as an alias", "quote the value: %q",
	},
	{
		[]string{"found character that cannot start any token"},
		regexp.MustCompile("(?:: |- |[\\[{,] ?)([@%`].*?)\\s*$"), true,
		"a value begins with a character that YAML reserves", "quote the value: %q",
	},
}

// why looks for the reason of what the parser says near the line at which it gave up; false when it is none of those known.
func (s *Source) why(problem string, line int) bool {
	if anchor := unknownAnchor.FindStringSubmatch(problem); anchor != nil {
		return s.undefinedAlias(anchor[1])
	}
	for _, cause := range yamlCauses {
		if !cause.mayBe(problem) {
			continue
		}
		for _, n := range s.near(line, len(cause.problems) == 0) {
			text := s.line(n)
			if cause.bare {
				text = blankQuoted(text)
			}
			m := cause.in.FindStringSubmatchIndex(text)
			if m == nil || cause.inFlow() && !s.isInFlow(n, m[2]) {
				continue
			}
			found := strings.TrimRight(s.line(n)[m[2]:m[3]], " ")
			hint := strings.NewReplacer("%q", quoteYAML(found), "%s", mended(found)).Replace(cause.hint)
			s.Add(SeverityError, n, utf8.RuneCountInString(text[:m[len(m)-2]])+1, "yaml", hint, "this is not valid YAML: "+cause.message)
			return true
		}
	}
	return s.looseBlock(problem, line)
}

func (c yamlCause) mayBe(problem string) bool {
	for _, p := range c.problems {
		if strings.Contains(problem, p) {
			return true
		}
	}
	return len(c.problems) == 0
}

// inFlow reports whether a cause is one within [ ] or { } alone.
func (c yamlCause) inFlow() bool { return slices.Equal(c.problems, []string{flowList, flowMapping}) }

// isInFlow reports whether a bracket is open at a place in a line.
func (s *Source) isInFlow(n, at int) bool {
	open := 0
	for text := blankQuoted(s.line(n))[:at]; ; text = blankQuoted(s.line(n)) {
		for i := len(text) - 1; i >= 0; i-- {
			switch text[i] {
			case '[', '{':
				open++
			case ']', '}':
				open--
			}
			if open > 0 {
				return true
			}
		}
		if n--; n < 1 {
			return false
		}
	}
}

// near lists the lines around one, nearest first, or all of them. The parser's line is that of the collection that it could not finish.
func (s *Source) near(line int, all bool) (lines []int) {
	reach := 12
	if all {
		reach = len(s.Lines)
	}
	for d := 0; d <= reach; d++ {
		for _, n := range []int{line + d, line - d} {
			if n >= 1 && n <= len(s.Lines) && (d > 0 || n == line) && (d <= 2 || n > line || all) {
				lines = append(lines, n)
			}
		}
	}
	return lines
}

var (
	unknownAnchor = regexp.MustCompile(`^unknown anchor '(.*)' referenced`)
	quoted        = regexp.MustCompile(`"(?:[^"\\]|\\.)*"|'[^']*'`)
	blockHeader   = regexp.MustCompile(`^(\s*).*[:-] [|>][-+]?$`)
)

// blankQuoted replaces texts in quotes that stand where one may begin, character by character.
func blankQuoted(text string) string {
	return quoted.ReplaceAllStringFunc(text, func(q string) string { return strings.Repeat("_", len(q)) })
}

// quoteYAML writes a text in quotes that it does not hold.
func quoteYAML(text string) string {
	if strings.Contains(text, `"`) {
		return "'" + strings.ReplaceAll(text, "'", "''") + "'"
	}
	return `"` + text + `"`
}

// mended writes what begins with a quote as one text, and a key with a space after its `:`.
func mended(text string) string {
	if apostrophe := regexp.MustCompile(`^'(.*[[:alpha:]])'([[:alpha:]].*?)'?$`).FindStringSubmatch(text); apostrophe != nil {
		return "'" + apostrophe[1] + "''" + apostrophe[2] + "'"
	}
	switch text[0] {
	case '"':
		return "single quotes: '" + strings.ReplaceAll(text, "'", "''") + "'"
	case '\'':
		return "double quotes: \"" + text + "\""
	}
	return strings.Replace(text, ":", ": ", 1)
}

func (s *Source) undefinedAlias(name string) bool {
	for n := range s.Lines {
		if at := strings.Index(blankQuoted(s.Lines[n]), "*"+name); at >= 0 {
			s.Add(SeverityError, n+1, utf8.RuneCountInString(s.Lines[n][:at])+1, "yaml", "write `&"+name+"` before the value that it refers to, or quote it",
				"the alias `*"+name+"` is not defined: no value has the anchor `&"+name+"`")
			return true
		}
	}
	return false
}

// looseBlock reports a text below `|` or `>` that is not indented more than its key.
func (s *Source) looseBlock(problem string, line int) bool {
	if !strings.Contains(problem, expectedColon) && !strings.Contains(problem, expectedKey) {
		return false
	}
	for n := line; n >= max(1, line-3); n-- {
		m, below := blockHeader.FindStringSubmatch(s.line(n)), s.line(n+1)
		if indent := len(below) - len(strings.TrimLeft(below, " ")); m != nil && strings.TrimSpace(below) != "" && indent <= len(m[1]) {
			s.Add(SeverityError, n+1, indent+1, "yaml", "indent the lines of the block more than its key", "this is not valid YAML: the block below `|` or `>` is not indented")
			return true
		}
	}
	return false
}
