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
	// hint may hold %q, for what was captured as a text in quotes that YAML reads, %e, for a text in double quotes as one in single quotes, %s,
	// for what was captured as it was likely meant, and %v, for it as it is.
	hint string
}

const (
	flowList, flowMapping = "did not find expected ',' or ']'", "did not find expected ',' or '}'"
	expectedKey           = "did not find expected key"
	expectedDash          = "did not find expected '-' indicator"
	expectedColon         = "could not find expected ':'"
	expectedNode          = "did not find expected node content"
	expectedWord          = "did not find expected alphabetic or numeric character"
	unexpectedColon       = "mapping values are not allowed in this context"
	reservedStart         = "found character that cannot start any token"
)

// lineCauses are what is wrong with the very line of which the parser speaks.
var lineCauses = []yamlCause{
	{
		[]string{expectedColon},
		regexp.MustCompile(`^\s*(?:- )?([A-Za-z_][\w-]*)(?: ?= ?\S.*|：.*)$`), false,
		"a key is followed by a `:` and a space", "write `%v: ...`",
	},
	{
		[]string{expectedColon},
		regexp.MustCompile(`^\s*(?:- )?([A-Za-z_][\w-]*)\s*$`), false,
		"a key has no `:`", "write `%v:`",
	},
	{
		[]string{unexpectedColon},
		regexp.MustCompile(`^\s*(?:- )*[\w.-]+:\s+([^\s"'\[{|>&*!#].*: .*)$`), false,
		"a value that contains `: ` is not in quotes", "quote the value: %q",
	},
}

var yamlCauses = []yamlCause{
	{
		nil, regexp.MustCompile(`^(<{7} .*|={7}$|>{7} .*)`), false,
		"a merge conflict is left in the document", "keep one of the two sides, and remove the lines that begin with <<<<<<<, ======= and >>>>>>>",
	},
	{
		nil, regexp.MustCompile("^(```.*)$"), false,
		"a line of Markdown is left in the document", "remove the lines that begin with ```",
	},
	{
		nil, regexp.MustCompile(`(?:: |^)("""|''')`), false,
		"YAML has no strings in triple quotes", "write `|` in their place, and indent the lines below it",
	},
	{
		[]string{reservedStart},
		regexp.MustCompile(`(\{%.*)$`), false,
		"`{% %}` is Jinja syntax, and a document is not a template", "write the steps out, or run one several times with `matrix` or `foreach`",
	},
	{
		[]string{flowList, flowMapping, expectedKey, expectedColon},
		regexp.MustCompile(`(?:^|[\]}"'])\s*(//.*|<!--.*)$`), false,
		"a comment begins with `#`", "write `#` before it",
	},
	{
		[]string{reservedStart, expectedWord},
		regexp.MustCompile(`[\[,]\s*(\||>>?|&&?|2>&1)\s*[,\]]`), true,
		"this is syntax of a shell, and a command is started without one", "write `script: |` and the command below it",
	},
	{
		[]string{"found unknown escape character"},
		regexp.MustCompile(`("(?:[^"\\]|\\[0abt\tnvfre "'/\\N_LPxuU])*(\\[^0abt\tnvfre "'/\\N_LPxuU])[^"]*")`), false,
		"in double quotes a `\\` begins an escape, and YAML has none such as this one", "use single quotes: %e",
	},
	{
		[]string{flowList, flowMapping, expectedWord},
		regexp.MustCompile(`(?:[\[{,:-] ?)(![A-Za-z(][^{},\[\]]*)`), true,
		"YAML reads a value that begins with `!` as a tag", "quote the value: %q",
	},
	{
		[]string{expectedWord}, // as in `cron: * 3 * * *`
		regexp.MustCompile(`(?:: |[\[{,] ?)(\*(?:/\d+)?(?: [\d*/,-]*[\d*/-]){4})`), true,
		"YAML reads a value that begins with `*` as an alias", "quote the value: %q",
	},
	{
		[]string{flowList, flowMapping, expectedNode},
		regexp.MustCompile(`(?:[\[{,]|: )\s*((?:[^\s\[\]{},:#][^\[\]{},:#]*\s)?#[^\s#\]},][^\]},]*)[\]},]`), true,
		"` #` begins a comment, which goes on to the end of the line", "quote the value: %q",
	},
	{
		[]string{flowList, flowMapping, expectedKey, expectedDash},
		regexp.MustCompile(`(?:^|[\s\[{,])('[^']*[[:alpha:]]'[[:alpha:]][^']*'?)`), false,
		"a string in single quotes ends at the apostrophe in it", "double the apostrophe, %s, or use double quotes",
	},
	{
		[]string{flowList, flowMapping},
		regexp.MustCompile(`(\$\{\{[^{}]*\}\})`), true,
		"within [ ] and { } YAML reads the braces of `${{ ... }}` as its own", "write `\"${...}\"`, with one brace and in quotes",
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
		[]string{flowList, flowMapping},
		regexp.MustCompile(`[{,]\s*([a-z_]+) ?=[^=]`), true,
		"a key is followed by a `:` and a space", "write `%v: ...`",
	},
	{
		[]string{flowList, flowMapping},
		regexp.MustCompile(`(?:[\[{,]|: )\s*([^\s\[\]{},:"'#]+(\[)[^\[\]{}]*\][^{},\[\]]*)`), true,
		"within [ ] and { } YAML reads the brackets of an index as its own", "quote the value: %q",
	},
	{
		[]string{flowList, flowMapping},
		regexp.MustCompile(`[{,]\s*([a-z_]+)\s+[\[{]`), true,
		"a key has no `:`", "write `%v: ...`",
	},
	{
		[]string{flowList, flowMapping},
		regexp.MustCompile(`(?:[\[{,]|: )\s*([^\s\[\]{},:"'#][^\[\]{},:#]* (\[)[^\]{}]*\][^{},\[\]]*)`), true,
		"within [ ] and { } YAML reads the brackets of a list as its own", "quote the expression: %q",
	},
	{
		[]string{flowList, flowMapping},
		regexp.MustCompile(`(?:[\[{,]|: )\s*((?:"[^"]*"|'[^']*')\s+(?:in\s+\[[^\]]*\]|(?:in\b|[=!]=|[<>+?]|&&|\|\|)[^,{}\[\]]*))`), false,
		"the value begins with a quote and continues after the closing quote", "put the whole value in %s",
	},
	{
		[]string{flowList, flowMapping},
		regexp.MustCompile(`(?:[\]}]|[\[{,:]\s*"[^"]*"|[\[{,:]\s*'[^']*')\s+(["'\w$\[{-][^,\]}]*)`), false,
		"two entries have no `,` between them", "write a `,` before it",
	},
	{
		[]string{flowList, flowMapping},
		regexp.MustCompile(`[\]}\w"'](;)\s*[a-z_"']+:`), true,
		"entries of [ ] and { } are separated by `,`", "write a `,` in place of `;`",
	},
	{
		[]string{expectedNode},
		regexp.MustCompile(`,\s*(,)`), true,
		"a value is missing between two commas", "remove one of them, or quote a value that holds a comma",
	},
	{
		[]string{flowList, flowMapping},
		regexp.MustCompile(`: ([^\s{}\[\],:"'#][^{}\[\],:]*(?:: [^{}\[\],]*)+)`), true,
		"within { } a value that contains `: ` is not in quotes", "quote the value, %q, or write a `,` before a key",
	},
	{
		[]string{expectedWord},
		regexp.MustCompile(`^\s*(\*) \S`), false,
		"an item of a list begins with `- `", "write `-` in place of `*`",
	},
	{
		[]string{flowList, flowMapping, expectedKey, expectedDash},
		regexp.MustCompile(`("[^"]*\$\{[^"}]*")\w`), false,
		"a string in double quotes ends at the double quote in its expression", "within it use single quotes: ${params.m['a']}",
	},
	{
		[]string{flowList, flowMapping, expectedKey, expectedDash},
		regexp.MustCompile(`(?:^|[\s\[{,])("[^"]*"\w[^"]*"[^"]*")`), false,
		"a string in double quotes ends at the double quote in it", "use single quotes: %e",
	},
	{
		[]string{expectedKey, expectedDash, "did not find expected comment or line break"},
		regexp.MustCompile(`^\s*(?:- )*(?:[\w.-]+:\s+)?("[^"]*"\s+[^\s#:,].*|'[^']*'\s+[^\s#:,].*)$`), false,
		"the value begins with a quote and continues after the closing quote", "put the whole value in %s",
	},
	{
		[]string{expectedKey, expectedDash, expectedColon, unexpectedColon},
		regexp.MustCompile(`^\s*(?:- )*([a-z_]+:[^\s:/].*)$`), false,
		"there is no space after the `:` of a key", "write a space after it: `%s`",
	},
	{
		[]string{expectedWord},
		regexp.MustCompile(`(?:[\s\[{,]|^)(\*[\w-]*[^\w\s,\]}-][^\s,\]}]*)`), true,
		"YAML reads a value that begins with `*` as an alias", "quote the value: %q",
	},
	{
		[]string{reservedStart},
		regexp.MustCompile("(?:[\\[{,] ?|[{,].*: )([@%`|>][^\\]},]*)[\\]},]"), true,
		"a value begins with a character that YAML reserves", "quote the value: %q",
	},
	{
		[]string{reservedStart},
		regexp.MustCompile("(?:: |- |[\\[{,] ?)([@%`].*?)\\s*$"), true,
		"a value begins with a character that YAML reserves", "quote the value: %q",
	},
}

// why looks for the reason of what the parser says near the line at which it gave up; false when it is none of those known.
func (s *Source) why(problem string, line int) bool {
	if anchor := unknownAnchor.FindStringSubmatch(problem); anchor != nil {
		return s.undefinedAlias(anchor[1])
	}
	if s.unclosedQuote() || s.bareAbove(problem, line) || s.unclosed(problem, line) || s.looseBlock(problem, line) || s.scriptWithoutBar(problem, line) {
		return true
	}
	for i, cause := range slices.Concat(lineCauses, yamlCauses) {
		if !cause.mayBe(problem) {
			continue
		}
		lines := []int{line}
		if i >= len(lineCauses) {
			lines = s.near(line, len(cause.problems) == 0)
		}
		for _, n := range lines {
			text := s.line(n)
			if cause.bare {
				text = blankQuoted(text)
			}
			m := cause.in.FindStringSubmatchIndex(text)
			if m == nil || cause.inFlow() && !s.isInFlow(n, m[2]) {
				continue
			}
			found := strings.TrimRight(s.line(n)[m[2]:m[3]], " ")
			hint := strings.NewReplacer("%q", quoteYAML(found), "%s", mended(found), "%e", unescaped(found), "%v", found).Replace(cause.hint)
			s.Add(SeverityError, n, utf8.RuneCountInString(text[:m[len(m)-2]])+1, "yaml", hint, "this is not valid YAML: "+cause.message)
			return true
		}
	}
	return s.unbalanced(problem, line) || s.missingComma(problem, line)
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
func (c yamlCause) inFlow() bool {
	return len(c.problems) > 0 && !slices.ContainsFunc(c.problems, func(p string) bool { return !slices.Contains([]string{flowList, flowMapping, expectedNode}, p) })
}

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
	key, value, _ := strings.Cut(text, ":")
	return key + ": " + strings.TrimLeft(value, "\u00a0\u200b")
}

// unescaped writes a text in double quotes in single quotes.
func unescaped(text string) string {
	text = strings.NewReplacer(`\"`, `"`, `\\`, `\`).Replace(strings.Trim(text, `"`))
	return "'" + strings.ReplaceAll(text, "'", "''") + "'"
}

func (s *Source) undefinedAlias(name string) bool {
	for n := range s.Lines {
		if at := strings.Index(blankQuoted(s.Lines[n]), "*"+name); at >= 0 {
			if slices.ContainsFunc(s.Lines[n:], regexp.MustCompile(`&`+regexp.QuoteMeta(name)+`\b`).MatchString) {
				s.Add(SeverityError, n+1, utf8.RuneCountInString(s.Lines[n][:at])+1, "yaml", "write the value here, after `&"+name+"`, and the alias where the value is now",
					"the alias `*"+name+"` stands before the value that has the anchor `&"+name+"`")
				return true
			}
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

// scriptWithoutBar reports a script whose lines YAML reads as a mapping, since no `|` stands before them.
func (s *Source) scriptWithoutBar(problem string, line int) bool {
	if !strings.Contains(problem, expectedColon) && !strings.Contains(problem, unexpectedColon) {
		return false
	}
	indent := func(n int) int { return len(s.line(n)) - len(strings.TrimLeft(s.line(n), " ")) }
	above := line
	for above--; above > 0 && indent(above) >= indent(line); above-- {
	}
	if strings.TrimLeft(strings.TrimSpace(s.line(above)), "- ") != "script:" {
		return false
	}
	s.Add(SeverityError, above, indent(above)+1, "yaml", "write `script: |`", "this is not valid YAML: a script of several lines is not a block")
	return true
}

// missingComma reports a line within [ ] or { } before which a comma is missing.
func (s *Source) missingComma(problem string, line int) bool {
	if !strings.Contains(problem, flowList) && !strings.Contains(problem, flowMapping) {
		return false
	}
	for _, n := range s.near(line, false) {
		before := strings.TrimRight(s.line(n-1), " ")
		if beginsEntry.MatchString(s.line(n)) && endsEntry.MatchString(before) && s.isInFlow(n, 0) {
			s.Add(SeverityError, n-1, utf8.RuneCountInString(before)+1, "yaml", "write it at the end of this line", "this is not valid YAML: two entries have no `,` between them")
			return true
		}
	}
	return false
}

var (
	beginsEntry = regexp.MustCompile(`^\s*(?:["']|[\w-]+: )`)
	endsEntry   = regexp.MustCompile(`[^\s,\[{:]$`)
)

var entryInFlow = regexp.MustCompile(`^\s*(?:- )*"?[\w.-]+"?: [\[{]`)

// unbalanced reports a line with an entry in which a bracket is closed by one of the other kind, or closes nothing.
func (s *Source) unbalanced(problem string, line int) bool {
	if !slices.ContainsFunc([]string{flowList, flowMapping, expectedKey}, func(p string) bool { return strings.Contains(problem, p) }) {
		return false
	}
	for _, n := range s.near(line, false) {
		text, open := blankQuoted(s.line(n)), []rune{}
		if !entryInFlow.MatchString(text) {
			continue
		}
		for i, r := range text {
			at := strings.IndexRune("]}", r)
			switch {
			case strings.ContainsRune("[{", r):
				open = append(open, r)
			case at < 0:
			case len(open) == 0 && s.isInFlow(n, 0):
			case len(open) == 0:
				s.Add(SeverityError, n, utf8.RuneCountInString(text[:i])+1, "yaml", "remove it", "this is not valid YAML: this `"+string(r)+"` closes nothing")
				return true
			case open[len(open)-1] != rune("[{"[at]):
				s.Add(SeverityError, n, utf8.RuneCountInString(text[:i])+1, "yaml", "write `"+string("}]"[at])+"` before it, or remove it",
					"this is not valid YAML: this `"+string(r)+"` does not close the `"+string(open[len(open)-1])+"` before it")
				return true
			default:
				open = open[:len(open)-1]
			}
		}
	}
	return false
}
