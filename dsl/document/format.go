package document

import (
	"bytes"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Format lays a pipeline or an environment out the one way: two spaces a level, lists deeper than their key, one space between
// lexemes, no blank at the end of a line and no two blank lines in a row. Everything else is the author's: comments, the order of
// keys, quotes, block scalars and where a line breaks. What the document says does not change, which Format checks itself. The text
// is nil when a finding says why there is none.
func Format(file File) ([]byte, Diagnostics) {
	text := bytes.TrimPrefix(file.Source, []byte("\ufeff"))
	text = bytes.ReplaceAll(text, []byte("\r\n"), []byte("\n"))
	src := New(File{Name: file.Name, Source: text})
	root := src.Parse(text)
	if root == nil {
		return nil, src.Findings
	}
	lexemes, err := lex(string(text), root)
	if err != nil {
		src.Add(SeverityError, err.line+1, err.col+1, "format", "write it another way", err.message)
		return nil, src.Findings
	}
	out := newLayout(lexemes, bytes.HasSuffix(text, []byte("\n"))).write()
	again := New(File{Name: file.Name, Source: out}).Parse(out)
	if at := difference(root, again); at != nil {
		src.Errorf(at, "format", "format this part by hand, and report a bug: `sluice fmt` should handle it", "this cannot be formatted without changing its meaning")
		return nil, src.Findings
	}
	return out, nil
}

// difference returns the first value of a that b does not have the same, or nil.
func difference(a, b *yaml.Node) *yaml.Node {
	if b == nil || a.Kind != b.Kind || a.Tag != b.Tag || a.Value != b.Value || a.Anchor != b.Anchor || a.Style != b.Style || len(a.Content) != len(b.Content) {
		return a
	}
	for i := range a.Content {
		if at := difference(a.Content[i], b.Content[i]); at != nil {
			return at
		}
	}
	return nil
}

// level is an open block mapping or list: the columns it had and has, from 0.
type level struct {
	old, new int
	list     bool
}

// anchorage is where something that goes on over several lines began: what its other lines are moved along with.
type anchorage struct{ oldCol, newCol, oldIndent, newIndent int }

// outLine is a line of the new layout; its trailing comment is kept apart until the comments around it are known.
type outLine struct {
	text    string
	width   int // in characters
	comment string
	col     int // of the comment before
	gap     int // between text and comment before
}

type layout struct {
	lexemes   []lexeme
	next      []int // the next one that is no comment, or -1
	lines     []outLine
	b         strings.Builder // the line being written
	width     int
	trailing  outLine // the comment behind it
	oldEnd    int     // column behind the last lexeme before
	oldIndent int
	newIndent int
	open      []level
	flow      anchorage
	newline   bool // at the end
}

func newLayout(lexemes []lexeme, newline bool) *layout {
	l := &layout{lexemes: lexemes, next: make([]int, len(lexemes)), newline: true}
	if last := len(lexemes) - 1; last >= 0 && lexemes[last].kind == lexemeBlock {
		l.newline = newline // only a block scalar at the very end can tell
	}
	next := -1
	for i, t := range slices.Backward(lexemes) {
		if l.next[i] = next; t.kind != lexemeComment {
			next = i
		}
	}
	return l
}

func (l *layout) write() []byte {
	indicators := true // only indicators have been on this line
	for i, t := range l.lexemes {
		first := i == 0 || t.line != l.lexemes[i-1].endLine()
		switch {
		case first:
			if i > 0 {
				l.endLine()
				if t.line > l.lexemes[i-1].endLine()+1 {
					l.endLine()
				}
			}
			l.oldIndent, l.newIndent = t.col, l.indentation(i)
			l.put(strings.Repeat(" ", l.newIndent))
			indicators = true
		case t.kind == lexemeComment:
			l.trailing = outLine{comment: t.text, col: t.col, gap: max(1, t.col-l.oldEnd)}
			continue
		default:
			l.put(separator(l.lexemes[i-1], t))
			if indicators && l.opensBlock(i) {
				l.open = append(l.open, level{t.col, l.width, t.text == "-"})
			}
		}
		indicators = indicators && t.isIndicator()
		l.lexeme(t)
	}
	l.endLine()
	return l.text()
}

// lexeme writes one lexeme at the place that was made for it.
func (l *layout) lexeme(t lexeme) {
	here := anchorage{t.col, l.width, l.oldIndent, l.newIndent}
	if t.flow == 0 && (t.text == "{" || t.text == "[") {
		l.flow = here
	}
	if t.flow > 0 {
		here = l.flow
	}
	for i, line := range strings.Split(t.text, "\n") {
		if i > 0 {
			l.endLine()
			line = l.continued(t, line, here)
		}
		l.put(line)
	}
	l.oldEnd = t.endCol()
}

// continued is a line of a scalar after the first.
func (l *layout) continued(t lexeme, line string, from anchorage) string {
	if t.kind == lexemeBlock {
		body := line[min(len(line), t.indent):]
		if body == "" {
			return ""
		}
		indent := l.top().new + 2
		if t.explicit > 0 {
			indent = l.top().new + t.explicit
		}
		return strings.Repeat(" ", indent) + body
	}
	body := strings.TrimLeft(line, " \t")
	if body == "" {
		return ""
	}
	return strings.Repeat(" ", l.moved(len(line)-len(body), from, 2)) + body
}

// moved is the new indentation of a line that goes on with what began elsewhere: a line under its beginning stays under it, another
// keeps its distance to the indentation. It stands at least so much deeper than the block around it.
func (l *layout) moved(indent int, from anchorage, deeper int) int {
	if indent > from.oldCol {
		indent += from.newCol - from.oldCol
	} else {
		indent += from.newIndent - from.oldIndent
	}
	return max(indent, l.top().new+deeper)
}

func (l *layout) put(s string) {
	l.b.WriteString(s)
	l.width += runeCount(s)
}

func (l *layout) endLine() {
	line := l.trailing
	line.text, line.width = l.b.String(), l.width
	l.lines = append(l.lines, line)
	l.trailing = outLine{}
	l.b.Reset()
	l.width = 0
}

// top is the innermost open block; before any there is one that all are deeper than.
func (l *layout) top() level {
	if len(l.open) == 0 {
		return level{old: -2, new: -2}
	}
	return l.open[len(l.open)-1]
}

// indentation of the line that begins with lexeme i, which opens and closes blocks.
func (l *layout) indentation(i int) int {
	t := l.lexemes[i]
	switch {
	case t.flow > 0 && (t.text == "}" || t.text == "]"):
		return l.moved(t.col, l.flow, 0)
	case t.flow > 0:
		return l.moved(t.col, l.flow, 2)
	case t.kind == lexemeComment:
		return l.commentColumn(i)
	}
	keep, column := l.place(t)
	l.open = l.open[:keep]
	if top := l.top(); top.new != column && l.opensBlock(i) {
		l.open = append(l.open, level{t.col, column, t.text == "-"})
	}
	return column
}

// place says how many blocks stay open at a line that begins with t, and its new column.
func (l *layout) place(t lexeme) (keep, column int) {
	dash := t.text == "-" && t.kind == lexemeMark
	keep = len(l.open)
	for keep > 0 && (l.open[keep-1].old > t.col || l.open[keep-1].old == t.col && l.open[keep-1].list && !dash) {
		keep--
	}
	switch {
	case keep == 0:
		return 0, 0
	case l.open[keep-1].old < t.col || dash && !l.open[keep-1].list:
		return keep, l.open[keep-1].new + 2
	}
	return keep, l.open[keep-1].new
}

// commentColumn is where a comment goes that has a line to itself: before what follows it, or, when it is deeper than that, at the
// end of the block it is in.
func (l *layout) commentColumn(i int) int {
	next, follower := l.next[i], -1
	if next >= 0 {
		follower = l.lexemes[next].col
	}
	for j := len(l.open) - 1; j >= 0 && l.open[j].old > follower; j-- {
		if l.open[j].old <= l.lexemes[i].col {
			return l.open[j].new
		}
	}
	if next < 0 {
		return 0
	}
	_, column := l.place(l.lexemes[next])
	return column
}

// opensBlock reports whether lexeme i begins an entry of a block mapping or list.
func (l *layout) opensBlock(i int) bool {
	if l.lexemes[i].flow > 0 {
		return false
	}
	if l.lexemes[i].isIndicator() {
		return true
	}
	for ; i+1 < len(l.lexemes); i++ {
		t, next := l.lexemes[i], l.lexemes[i+1]
		if next.line != t.endLine() {
			return false
		}
		if t.kind != lexemeWord || t.text[0] == '*' {
			return next.kind == lexemeMark && next.text == ":"
		}
	}
	return false
}

// separator is what stands between two lexemes of a line.
func separator(a, b lexeme) string {
	switch {
	case a.kind == lexemeMark && (a.text == "{" || a.text == "[") && b.flow > 0:
		return ""
	case b.kind != lexemeMark:
		return " "
	case b.text == "," || b.text == "}" || b.text == "]":
		if a.kind == lexemeMark && a.text == ":" || a.kind == lexemeWord && a.text[0] == '!' {
			return " " // {a: } and {a: !!str } would be read otherwise
		}
		return ""
	case b.text == ":" && a.kind != lexemeWord && !a.isIndicator():
		return ""
	}
	return " "
}

// text puts the lines together. Comments behind neighbouring lines that stood in one column stand in one again.
func (l *layout) text() []byte {
	for i := 0; i < len(l.lines); {
		end, gap := i+1, l.lines[i].gap
		width := l.lines[i].width
		for ; l.lines[i].comment != "" && end < len(l.lines) && l.lines[end].comment != "" && l.lines[end].col == l.lines[i].col; end++ {
			gap, width = min(gap, l.lines[end].gap), max(width, l.lines[end].width)
		}
		for ; i < end; i++ {
			if line := &l.lines[i]; line.comment != "" {
				line.text += strings.Repeat(" ", width+gap-line.width) + line.comment
			}
		}
	}
	var b bytes.Buffer
	for i, line := range l.lines {
		if i > 0 {
			b.WriteByte('\n')
		}
		b.WriteString(line.text)
	}
	if l.newline {
		b.WriteByte('\n')
	}
	return b.Bytes()
}

// formatError says what of a document has no one way of being laid out.
type formatError struct {
	line, col int // from 0
	message   string
}
