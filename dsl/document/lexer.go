package document

import (
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

type lexemeKind int

const (
	lexemeMark    lexemeKind = iota // one of - ? : , [ ] { }
	lexemeScalar                    // plain or quoted
	lexemeBlock                     // | or > with its lines
	lexemeWord                      // an anchor, alias, tag, directive or document marker
	lexemeComment                   // from # to the end of its line
)

// lexeme is a piece of a document as it is written. What is between them is white space.
type lexeme struct {
	kind      lexemeKind
	text      string
	line, col int // from 0, col in characters
	flow      int // collections in [ ] or { } around it
	// Of a block scalar: the indentation of its text, and the number that its header gives, or 0.
	indent, explicit int
}

// isIndicator reports whether t is a `-`, `?` or `:` that may begin an entry of a block.
func (t lexeme) isIndicator() bool {
	return t.kind == lexemeMark && t.flow == 0 && (t.text == "-" || t.text == "?" || t.text == ":")
}

func (t lexeme) endLine() int { return t.line + strings.Count(t.text, "\n") }

// endCol is the column behind t.
func (t lexeme) endCol() int {
	if i := strings.LastIndexByte(t.text, '\n'); i >= 0 {
		return runeCount(t.text[i+1:])
	}
	return t.col + runeCount(t.text)
}

func runeCount(s string) int { return utf8.RuneCountInString(s) }

// lexer splits a document that the YAML parser has read. The parser has told where each scalar begins; all else can be told from
// its first character.
type lexer struct {
	text      string
	scalars   []*yaml.Node // in the order of the document
	lexemes   []lexeme
	at        int // byte offset
	line, col int
	flow      int
}

func lex(text string, root *yaml.Node) ([]lexeme, *formatError) {
	x := &lexer{text: text}
	x.collect(root)
	for i, r := range text {
		if r == '\r' || r == '\u0085' || r == '\u2028' || r == '\u2029' {
			x.skip(i)
			return nil, x.fail("this line ends with a character that other programs do not recognize as a line break")
		}
	}
	for x.at < len(x.text) {
		if err := x.next(); err != nil {
			return nil, err
		}
	}
	if len(x.scalars) > 0 {
		return nil, x.fail("a value was not found in the source")
	}
	return x.lexemes, nil
}

// collect lists the scalars under n that have characters of their own.
func (x *lexer) collect(n *yaml.Node) {
	if n.Kind == yaml.ScalarNode && (n.Value != "" || n.Style&^yaml.TaggedStyle != 0) {
		x.scalars = append(x.scalars, n)
	}
	for _, c := range n.Content {
		x.collect(c)
	}
}

func (x *lexer) fail(message string) *formatError { return &formatError{x.line, x.col, message} }

// skip moves on to a byte offset.
func (x *lexer) skip(to int) {
	passed := x.text[x.at:to]
	if i := strings.LastIndexByte(passed, '\n'); i >= 0 {
		x.line += strings.Count(passed, "\n")
		x.col, passed = 0, passed[i+1:]
	}
	x.col += runeCount(passed)
	x.at = to
}

func (x *lexer) emit(kind lexemeKind, end int) {
	x.lexemes = append(x.lexemes, lexeme{kind: kind, text: x.text[x.at:end], line: x.line, col: x.col, flow: x.flow})
	x.skip(end)
}

// next reads white space or one lexeme.
func (x *lexer) next() *formatError {
	c := x.text[x.at]
	rest := x.text[x.at:]
	switch {
	case c == ' ' || c == '\t' || c == '\n':
		x.skip(x.at + 1)
	case c == '#':
		x.emit(lexemeComment, x.lineEnd())
		last := &x.lexemes[len(x.lexemes)-1]
		last.text = strings.TrimRight(last.text, " \t")
	case x.col == 0 && (c == '%' || x.isMarker("---") || x.isMarker("...")):
		end := x.at + 3
		if c == '%' {
			end = x.lineEnd()
		}
		x.emit(lexemeWord, end)
	case c == '&' || c == '*':
		x.emit(lexemeWord, x.at+1+prefixLength(rest[1:], isAnchorRune))
	case c == '!':
		x.emit(lexemeWord, x.at+prefixLength(rest, func(r rune) bool { return !isBlank(r) && (x.flow == 0 || !strings.ContainsRune(",[]{}", r)) }))
	case x.atScalar():
		return x.scalar()
	case strings.IndexByte("-?:,[]{}", c) >= 0:
		x.mark(c)
	default:
		return x.fail("this character is not expected here")
	}
	return nil
}

func isBlank(r rune) bool { return r == ' ' || r == '\t' || r == '\n' }

func isAnchorRune(r rune) bool {
	return r >= '0' && r <= '9' || r >= 'A' && r <= 'Z' || r >= 'a' && r <= 'z' || r == '_' || r == '-'
}

func (x *lexer) mark(c byte) {
	if c == ']' || c == '}' {
		x.emit(lexemeMark, x.at+1)
		x.flow--
		return
	}
	x.emit(lexemeMark, x.at+1)
	if c == '[' || c == '{' {
		x.flow++
	}
}

func (x *lexer) isMarker(marker string) bool {
	rest, ok := strings.CutPrefix(x.text[x.at:], marker)
	return ok && (rest == "" || rest[0] == ' ' || rest[0] == '\t' || rest[0] == '\n')
}

// lineEnd is the offset of the end of this line.
func (x *lexer) lineEnd() int { return lineEnd(x.text, x.at) }

func lineEnd(text string, at int) int {
	if i := strings.IndexByte(text[at:], '\n'); i >= 0 {
		return at + i
	}
	return len(text)
}

// atScalar reports whether the next scalar begins here: the parser's place is that of its anchor and tag, which are passed already.
func (x *lexer) atScalar() bool {
	if len(x.scalars) == 0 {
		return false
	}
	n := x.scalars[0]
	if n.Line-1 == x.line && n.Column-1 == x.col {
		return true
	}
	return (n.Line-1 < x.line || n.Line-1 == x.line && n.Column-1 < x.col) && (n.Anchor != "" || n.Style&yaml.TaggedStyle != 0)
}

func (x *lexer) scalar() *formatError {
	n := x.scalars[0]
	x.scalars = x.scalars[1:]
	var end int
	switch {
	case n.Style&(yaml.LiteralStyle|yaml.FoldedStyle) != 0:
		x.block(n)
		return nil
	case n.Style&yaml.DoubleQuotedStyle != 0:
		end = doubleQuotedEnd(x.text, x.at)
	case n.Style&yaml.SingleQuotedStyle != 0:
		end = singleQuotedEnd(x.text, x.at)
	default:
		end = plainEnd(x.text, x.at, n.Value)
	}
	if end < 0 {
		return x.fail("the end of this string was not found")
	}
	x.emit(lexemeScalar, end)
	return nil
}

func doubleQuotedEnd(text string, i int) int {
	for i++; i < len(text); i++ {
		switch text[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	return -1
}

func singleQuotedEnd(text string, i int) int {
	for i++; i < len(text); i++ {
		if text[i] != '\'' {
			continue
		}
		if i+1 == len(text) || text[i+1] != '\'' {
			return i + 1
		}
		i++
	}
	return -1
}

// plainEnd is where a plain scalar ends that is read as value: both are the same but for white space.
func plainEnd(text string, i int, value string) int {
	for _, r := range value {
		if isBlank(r) {
			continue
		}
		i += prefixLength(text[i:], isBlank)
		if !strings.HasPrefix(text[i:], string(r)) {
			return -1
		}
		i += utf8.RuneLen(r)
	}
	return i
}

// prefixLength is the length in bytes of the characters at the beginning of s that f holds for.
func prefixLength(s string, f func(rune) bool) int {
	if i := strings.IndexFunc(s, func(r rune) bool { return !f(r) }); i >= 0 {
		return i
	}
	return len(s)
}

// block reads a block scalar: its header, then the lines that are blank or as deep as its first one with text.
func (x *lexer) block(n *yaml.Node) {
	header := strings.TrimRight(x.text[x.at:x.lineEnd()], " \t")
	indicators, _, _ := strings.Cut(header, " ")
	t := lexeme{kind: lexemeBlock, text: header, line: x.line, col: x.col, flow: x.flow, indent: -1}
	if i := strings.IndexAny(indicators, "123456789"); i >= 0 {
		t.explicit = int(indicators[i] - '0')
	}
	keep := strings.Contains(indicators, "+")
	extra, hasText := textIndent(n.Value)
	var b strings.Builder
	end, kept := x.lineEnd(), 0 // where the last line ends that belongs to it for sure, and the length of b up to there
	for at := end + 1; at < len(x.text); {
		stop := lineEnd(x.text, at)
		line := x.text[at:stop]
		at = stop + 1
		indent := prefixLength(line, func(r rune) bool { return r == ' ' })
		blank := indent == len(line)
		if !blank && t.indent < 0 && hasText {
			t.indent = indent - extra
		}
		if !blank && (t.indent < 0 || indent < t.indent) {
			break
		}
		b.WriteString("\n" + line)
		if !blank || keep || t.indent >= 0 && indent > t.indent {
			end, kept = stop, b.Len()
		}
	}
	t.indent = max(t.indent, 0)
	t.text += b.String()[:kept]
	x.lexemes = append(x.lexemes, t)
	x.skip(end)
}

// textIndent is how far the first line of a block scalar's value that is not blank is indented in the value itself.
func textIndent(value string) (extra int, ok bool) {
	for line := range strings.SplitSeq(value, "\n") {
		if text := strings.TrimLeft(line, " "); text != "" {
			return len(line) - len(text), true
		}
	}
	return 0, false
}
