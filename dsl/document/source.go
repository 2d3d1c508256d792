package document

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

// MaxSource bounds a document in bytes; a larger one is refused. Like the other bounds it refuses what is a mistake or an attack, far
// above any real pipeline.
const MaxSource = 512 << 10

// Bounds on what is said of a document.
const (
	MaxFindings = 1000
	maxShown    = 2000 // characters of a line: a document that a program wrote may be one line
)

// Source is a document's text with its findings.
type Source struct {
	name     string
	accepted bool
	judging  bool
	Lines    []string
	Findings Diagnostics
	// The characters of the line asked for last: values are read in the order of the document, and many may share a long line.
	runesOf int
	runes   []rune
}

// lineBreak is what YAML 1.1, which the parser speaks, takes for the end of a line.
var lineBreak = regexp.MustCompile("\r\n|[\n\r\u0085\u2028\u2029]")

// New splits a document into lines. It has no findings yet.
func New(f File) *Source {
	text := string(f.Source[:min(len(f.Source), MaxSource)])
	lines := strings.Split(text, "\n")
	if strings.ContainsAny(text, "\r\u0085\u2028\u2029") {
		lines = lineBreak.Split(text, -1)
	}
	return &Source{name: f.Name, accepted: f.Accepted, Lines: lines}
}

// Judge applies rules to what has been read: a program can be made of a document that breaks them. Nothing is found in one that was accepted.
func (s *Source) Judge(rules func()) {
	outer := s.judging
	s.judging = true
	rules()
	s.judging = outer
}

// line returns the text of line n, from 1.
func (s *Source) line(n int) string {
	if n < 1 || n > len(s.Lines) {
		return ""
	}
	return s.Lines[n-1]
}

// Text returns the text of line n, from 1.
func (s *Source) Text(n int) string { return s.line(n) }

// Characters returns the characters of line n, which the caller does not change.
func (s *Source) Characters(n int) []rune {
	if s.runesOf != n {
		s.runesOf, s.runes = n, []rune(s.line(n))
	}
	return s.runes
}

// Add reports a finding. After as many as anybody reads there is only one more, that there are others. What the parser places behind the end of the document is placed at its end.
func (s *Source) Add(sev Severity, line, col int, code, hint, message string) {
	if line > len(s.Lines) {
		line, col = len(s.Lines), utf8.RuneCountInString(s.line(len(s.Lines)))+1
	}
	switch {
	case s.judging && s.accepted:
		return
	case len(s.Findings) > MaxFindings || len(s.Findings) == MaxFindings && sev == SeverityWarning:
		return
	case len(s.Findings) == MaxFindings:
		code, hint, message = "limit", "fix those first", fmt.Sprintf("there are more than %d findings", MaxFindings)
	}
	text, from := hidden(s.line(line)), 0
	if len(text) > maxShown {
		all := []rune(text)
		from = max(0, min(col-maxShown/2, len(all)-maxShown))
		text = string(all[from:min(len(all), from+maxShown)])
	}
	s.Findings = append(s.Findings, Diagnostic{
		File: s.name, Line: line, Col: col, Severity: sev, Code: code, Message: hidden(message), Hint: hidden(hint), Source: text, From: from,
	})
}

// AddAt reports a finding at a character of a scalar's value.
func (s *Source) AddAt(sev Severity, n *yaml.Node, offset int, code, hint, message string) {
	line, col := s.Locate(n, offset)
	s.Add(sev, line, col, code, hint, message)
}

// Reporter takes down what is wrong with the values of a document.
type Reporter interface {
	// Errorf reports an error at a value.
	Errorf(n *yaml.Node, code, hint, format string, args ...any)
	// Warnf reports a warning at a value.
	Warnf(n *yaml.Node, code, hint, format string, args ...any)
}

// Errorf implements Reporter.
func (s *Source) Errorf(n *yaml.Node, code, hint, format string, args ...any) {
	s.Add(SeverityError, n.Line, n.Column, code, hint, fmt.Sprintf(format, args...))
}

// Warnf implements Reporter.
func (s *Source) Warnf(n *yaml.Node, code, hint, format string, args ...any) {
	s.Add(SeverityWarning, n.Line, n.Column, code, hint, fmt.Sprintf(format, args...))
}

var yamlErrorLine = regexp.MustCompile(`line (\d+): ?`)

// Parse reads the one document of the source; nil after it has reported why it cannot.
func (s *Source) Parse(data []byte) *yaml.Node {
	switch {
	case len(data) > MaxSource:
		s.Add(SeverityError, 1, 1, "limit", "move data to files beside it, and refer to those", fmt.Sprintf("the document is larger than %d kB", MaxSource>>10))
		return nil
	case !utf8.Valid(data):
		line, col := position(data, invalidUTF8(data))
		s.Add(SeverityError, line, col, "encoding", "save the file as UTF-8", "this is not valid UTF-8")
		return nil
	case bytes.IndexByte(data, 0) >= 0:
		line, col := position(data, bytes.IndexByte(data, 0))
		s.Add(SeverityError, line, col, "encoding", "remove it", "a NUL character cannot be part of a document")
		return nil
	}
	dec := yaml.NewDecoder(bytes.NewReader(withoutDirective(data)))
	var doc, second yaml.Node
	if err := dec.Decode(&doc); errors.Is(err, io.EOF) {
		s.Add(SeverityError, 1, 1, "empty", "it must begin with `sluice: pipeline/v1`", "the document is empty")
		return nil
	} else if err != nil {
		s.yamlError(err)
		return nil
	}
	if err := dec.Decode(&second); err == nil {
		s.Errorf(&second, "documents", "move it to a file of its own", "a second document begins here; a file holds one")
		return nil
	} else if !errors.Is(err, io.EOF) {
		s.yamlError(err)
		return nil
	}
	return doc.Content[0]
}

// yamlError places what the YAML parser says. A tab in an indentation is by far the commonest cause and is named as such.
func (s *Source) yamlError(err error) {
	text := strings.TrimPrefix(err.Error(), "yaml: ")
	line := 1
	if m := yamlErrorLine.FindStringSubmatch(text); m != nil {
		line, _ = strconv.Atoi(m[1])
		text = strings.Replace(text, m[0], "", 1)
	}
	for _, near := range []int{line, line + 1, line - 1} {
		src := s.line(near)
		if indent := src[:len(src)-len(strings.TrimLeft(src, " \t"))]; strings.Contains(indent, "\t") {
			s.Add(SeverityError, near, utf8.RuneCountInString(indent[:strings.IndexByte(indent, '\t')])+1, "tab", "indent with spaces", "YAML does not allow tabs for indentation")
			return
		}
	}
	if s.why(text, line) {
		return
	}
	hint := ""
	for _, known := range yamlProblems {
		if strings.Contains(text, known.problem) {
			text, hint = known.message, known.hint
			line += known.ahead
			if known.indent {
				line = s.misindented(line)
			}
			break
		}
	}
	line = min(max(line, 1), len(s.Lines))
	src := s.line(line)
	col := len(src) - len(strings.TrimLeft(src, " ")) + 1
	s.Add(SeverityError, line, col, "yaml", hint, "this is not valid YAML: "+text)
}

// yamlProblems are the commonest things the YAML parser says, in the words of the person who wrote the document. The parser counts
// the lines of some of them from 0: ahead makes up for it.
var yamlProblems = []struct {
	problem, message, hint string
	ahead                  int
	indent                 bool // the line told is where the block begins, not the one that is indented unlike it
}{
	{"did not find expected ',' or ']'", "a list that begins with `[` is not closed", "close it with `]`, or quote a string that contains brackets", 1, false},
	{"did not find expected ',' or '}'", "a mapping that begins with `{` is not closed", "close it with `}`, or quote a string that contains braces", 1, false},
	{"did not find expected key", "a line is indented differently from the lines that it belongs to", "indent all keys of a mapping equally", 1, true},
	{"did not find expected '-' indicator", "a line is indented differently from the list that it belongs to", "begin each item with `- ` in the same column", 1, true},
	{"did not find expected node content", "a value is missing", "write the value, or quote it when it begins with a special character", 1, false},
	{"mapping values are not allowed in this context", "a `:` is not allowed here", "quote a string that contains `: `, or check the indentation", 0, false},
	{"could not find expected ':'", "a key has no `:`", "write `key: value`", 0, false},
	{"found character that cannot start any token", "a value begins with a character that YAML reserves", "quote the value", 0, false},
	{"found unknown escape character", "in double quotes a `\\` begins an escape, and YAML has none such as this one", "use single quotes, or double the `\\`", 0, false},
	{"did not find expected comment or line break", "text stands after `|` or `>`", "begin the text on the next line, indented more than its key", 0, false},
	{"found unexpected end of stream", "a quoted string is not closed", "close the quote", 0, false},
}

var (
	looksLikeKey = regexp.MustCompile(`^[\w-]+:( |$)`)
	opensBlock   = regexp.MustCompile(`(^|\s)-\s|[:|>\-+,\[{]\s*(#.*)?$`)
)

// withoutDirective makes a comment of the line `%YAML 1.2` that a document begins with. The parser reads no other version than 1.1, which is
// the same for what a document may have.
func withoutDirective(data []byte) []byte {
	if !bytes.HasPrefix(data, []byte("%YAML 1.2")) {
		return data
	}
	data = bytes.Clone(data)
	data[0] = '#'
	return data
}

// textBefore is the last line before one that is not blank.
func (s *Source) textBefore(n int) string {
	for n--; n > 0; n-- {
		if text := strings.TrimSpace(s.line(n)); text != "" {
			return text
		}
	}
	return ""
}

// misindented returns the first line after one at which a block begins whose indentation is that of no open block; that line itself
// when there is none. It looks at indentation alone, which is enough for where the parser has failed because of it.
func (s *Source) misindented(begin int) int {
	var open []int
	for n := begin; n <= len(s.Lines); n++ {
		text := strings.TrimLeft(s.line(n), " ")
		if text == "" || text[0] == '#' {
			continue
		}
		indent, closed := len(s.line(n))-len(text), false
		for len(open) > 0 && open[len(open)-1] > indent {
			open, closed = open[:len(open)-1], true
		}
		switch {
		case len(open) == 0 && closed:
			return begin
		case len(open) > 0 && open[len(open)-1] == indent:
		case closed:
			return n
		case len(open) > 0 && looksLikeKey.MatchString(text) && !opensBlock.MatchString(s.textBefore(n)):
			return n
		default:
			open = append(open, indent)
		}
	}
	return begin
}

func invalidUTF8(data []byte) int {
	for i := 0; i < len(data); {
		r, n := utf8.DecodeRune(data[i:])
		if r == utf8.RuneError && n == 1 {
			return i
		}
		i += n
	}
	return len(data)
}

func position(data []byte, offset int) (line, col int) {
	lines := lineBreak.Split(string(data[:offset]), -1)
	return len(lines), utf8.RuneCountInString(lines[len(lines)-1]) + 1
}

// Locate returns where character offset of a scalar's value stands in the source: it walks value and source side by side, undoing
// indentation, folding, quotes and escapes.
func (s *Source) Locate(n *yaml.Node, offset int) (line, col int) {
	c := &cursor{src: s, line: n.Line}
	c.enter(n.Line)
	c.col = n.Column - 1
	c.properties()
	value := []rune(n.Value)
	offset = min(offset, len(value))
	switch {
	case n.Style&(yaml.LiteralStyle|yaml.FoldedStyle) != 0:
		c.block(n)
		for i, r := range value[:offset] {
			if r == '\n' && n.Style&yaml.LiteralStyle != 0 {
				c.enter(c.line + 1)
				c.col = min(c.indent, len(c.runes))
				continue
			}
			c.step(r, value, i)
		}
	default:
		c.quote = 0
		if n.Style&yaml.DoubleQuotedStyle != 0 {
			c.quote = '"'
		} else if n.Style&yaml.SingleQuotedStyle != 0 {
			c.quote = '\''
		}
		if c.quote != 0 {
			c.col++
		}
		for i, r := range value[:offset] {
			c.step(r, value, i)
		}
	}
	c.settle()
	return c.line, min(c.col, len(c.runes)) + 1
}

// cursor is a place in the source during locate.
type cursor struct {
	src       *Source
	line, col int // line from 1, col from 0
	runes     []rune
	indent    int
	quote     rune
}

func (c *cursor) enter(line int) {
	c.line, c.runes = line, c.src.Characters(line)
}

// properties skips an anchor and a tag in front of the value.
func (c *cursor) properties() {
	for c.col < len(c.runes) && (c.runes[c.col] == '&' || c.runes[c.col] == '!') {
		for c.col < len(c.runes) && c.runes[c.col] != ' ' {
			c.col++
		}
		for c.col < len(c.runes) && c.runes[c.col] == ' ' {
			c.col++
		}
	}
}

// block moves to the first line of a block scalar and takes its indentation.
func (c *cursor) block(n *yaml.Node) {
	c.enter(n.Line + 1)
	for l := c.line; l <= len(c.src.Lines); l++ {
		if text := c.src.line(l); strings.TrimSpace(text) != "" {
			c.indent = len(text) - len(strings.TrimLeft(text, " "))
			break
		}
	}
	c.col = min(c.indent, len(c.runes))
}

// step moves past one character of the value.
func (c *cursor) step(r rune, value []rune, i int) {
	c.settle()
	if c.col >= len(c.runes) || (r == ' ' || r == '\n') && c.restBlank() && !(i+1 < len(value) && value[i+1] == ' ') && c.quote == 0 {
		if r == ' ' || r == '\n' {
			c.nextText()
		}
		return
	}
	switch {
	case c.quote == '"' && c.runes[c.col] == '\\':
		c.col += escapeLen(c.runes[c.col:])
	case c.quote == '\'' && c.runes[c.col] == '\'':
		c.col += 2
	case r == '\n' && c.runes[c.col] != '\n':
		// A blank line of a folded text, already behind us.
	default:
		c.col++
	}
}

// settle moves over a line break that stands for no character: an escaped one in double quotes.
func (c *cursor) settle() {
	if c.quote == '"' && c.col == len(c.runes)-1 && c.runes[c.col] == '\\' {
		c.nextText()
	}
}

func (c *cursor) restBlank() bool {
	return !slices.ContainsFunc(c.runes[c.col:], func(r rune) bool { return !unicode.IsSpace(r) })
}

// nextText moves to the first character of the next line that is not blank, or to the end of this one when there is none.
func (c *cursor) nextText() {
	last := c.line
	for c.line < len(c.src.Lines) {
		c.enter(c.line + 1)
		if text := string(c.runes); strings.TrimSpace(text) != "" {
			c.col = len(c.runes) - len([]rune(strings.TrimLeft(text, " \t")))
			return
		}
	}
	c.enter(last)
	c.col = len(c.runes)
}

func escapeLen(rest []rune) int {
	if len(rest) < 2 {
		return 1
	}
	switch rest[1] {
	case 'x':
		return 4
	case 'u':
		return 6
	case 'U':
		return 10
	}
	return 2
}

// File is a document and where it came from.
type File struct {
	Name   string
	Source []byte
	// Accepted is set if a version of Sluice has accepted the document, and runs depend on it. Judge finds nothing in it: this version may
	// have rules that that one did not have.
	Accepted bool
}
