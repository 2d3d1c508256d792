package document

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Severity says whether a diagnostic stops a run from starting.
type Severity string

// The severities.
const (
	SeverityError   Severity = "error"
	SeverityWarning Severity = "warning"
)

// Diagnostic is one finding in a document, at the place it is about.
type Diagnostic struct {
	File string `json:"file,omitempty"`
	// Line and Col count from 1, Col in characters. Both are 0 for what has no place, such as a parameter of the command line.
	Line     int      `json:"line,omitempty"`
	Col      int      `json:"col,omitempty"`
	Severity Severity `json:"severity"`
	// Code names the rule; it is stable.
	Code    string `json:"code"`
	Message string `json:"message"`
	// Hint says what to do.
	Hint string `json:"hint,omitempty"`
	// Source is the line of the document; of a very long one what is around Col, behind so many characters as From says.
	Source string `json:"source,omitempty"`
	From   int    `json:"-"`
}

// Diagnostics are findings, sorted by place.
type Diagnostics []Diagnostic

// HasErrors reports whether any finding stops a run.
func (ds Diagnostics) HasErrors() bool {
	return slices.ContainsFunc(ds, func(d Diagnostic) bool { return d.Severity == SeverityError })
}

// HasErrorAt reports whether an error is in the lines of a value, so that it may not be what it seems.
func (ds Diagnostics) HasErrorAt(n *yaml.Node) bool {
	return slices.ContainsFunc(ds, func(d Diagnostic) bool { return d.Severity == SeverityError && d.isIn(n) })
}

// HasAnyAt reports whether any finding is in the lines of a value.
func (ds Diagnostics) HasAnyAt(n *yaml.Node) bool {
	return slices.ContainsFunc(ds, func(d Diagnostic) bool { return d.isIn(n) })
}

func (d Diagnostic) isIn(n *yaml.Node) bool {
	return d.Line >= n.Line && d.Line <= lastLine(n) && (d.Line > n.Line || d.Col >= n.Column)
}

func lastLine(n *yaml.Node) int {
	line := n.Line
	for _, c := range n.Content {
		line = max(line, lastLine(c))
	}
	return line
}

// Error implements error with the text form.
func (ds Diagnostics) Error() string { return strings.TrimRight(ds.Text(false), "\n") }

// Sort orders the findings by file and place.
func (ds Diagnostics) Sort() {
	slices.SortStableFunc(ds, func(a, b Diagnostic) int {
		return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Col, b.Col), cmp.Compare(a.Code, b.Code), cmp.Compare(a.Message, b.Message))
	})
}

// Text renders the findings for people:
//
//	spam.yaml:12:11: error[metric]: `f2` is not a metric of `fit`
//	   12 |     gate: metrics.f2 > 0.9
//	      |           ^
//	help: did you mean `f1`?
func (ds Diagnostics) Text(color bool) string {
	var b strings.Builder
	for i, d := range ds {
		if i > 0 {
			b.WriteByte('\n')
		}
		d.write(&b, paint(color))
	}
	return b.String()
}

func (d Diagnostic) write(b *strings.Builder, style func(code, s string) string) {
	const bold, red, yellow, blue = "1", "1;31", "1;33", "1;34"
	if d.File != "" {
		place := d.File
		if d.Line > 0 {
			place = fmt.Sprintf("%s:%d:%d", d.File, d.Line, d.Col)
		}
		b.WriteString(style(bold, place+":") + " ")
	}
	tone := red
	if d.Severity == SeverityWarning {
		tone = yellow
	}
	fmt.Fprintf(b, "%s %s\n", style(tone, fmt.Sprintf("%s[%s]:", d.Severity, d.Code)), style(bold, d.Message))
	if d.Line > 0 {
		text, before := excerpt(d.Source, d.Col-d.From)
		fmt.Fprintf(b, "%s %s\n", style(blue, fmt.Sprintf("%5d |", d.Line)), text)
		fmt.Fprintf(b, "%s %s%s\n", style(blue, "      |"), before, style(tone, "^"))
	}
	if d.Hint != "" {
		fmt.Fprintf(b, "%s %s\n", style(blue, "help:"), d.Hint)
	}
}

// paint returns a function that wraps a string in an SGR sequence, or leaves it alone.
func paint(on bool) func(code, s string) string {
	if !on {
		return func(_, s string) string { return s }
	}
	return func(code, s string) string { return "\x1b[" + code + "m" + s + "\x1b[0m" }
}

// excerpt shortens a long line around col and returns the white space that puts a caret under it. Tabs stay tabs, so that the
// caret is right whatever their width; other control characters are made visible, so that a document cannot drive a terminal.
func excerpt(line string, col int) (text, before string) {
	const width, lead = 160, 60
	runes := []rune(line)
	for i, r := range runes {
		if r < ' ' && r != '\t' || r == 0x7f {
			runes[i] = '\uFFFD'
		}
	}
	at := min(max(col-1, 0), len(runes))
	from := 0
	if len(runes) > width && at > lead {
		from = at - lead
	}
	to := min(len(runes), from+width)
	pad := make([]rune, at-from)
	for i := range pad {
		pad[i] = ' '
		if runes[from+i] == '\t' {
			pad[i] = '\t'
		}
	}
	return string(runes[from:to]), string(pad)
}
