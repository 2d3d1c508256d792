package view

import (
	"io"
	"strings"

	"github.com/sluiceml/sluice/dsl/document"
	"github.com/sluiceml/sluice/internal/human"
)

// Codes lists the codes of findings.
func (t Theme) Codes(w io.Writer, codes []document.Code) error {
	out := writer{w: w}
	width := 0
	for _, c := range codes {
		width = max(width, len(c.Name))
	}
	for _, c := range codes {
		out.folded(t, width+2, t.paint(bold, pad(c.Name, width)), "  ", c.Title)
	}
	return out.err
}

// Code explains one code with its examples.
func (t Theme) Code(w io.Writer, c document.Code) error {
	out := writer{w: w}
	out.folded(t, 2, t.paint(bold, c.Name), ": ", c.Title)
	out.line()
	width := 100
	if t.Width > 0 {
		width = min(width, t.Width)
	}
	for _, line := range wrap(c.Text, width) {
		out.line(line)
	}
	for _, example := range []struct{ title, style, text string }{{"wrong", red, c.Wrong}, {"right", green, c.Right}} {
		if example.text == "" {
			continue
		}
		out.line()
		out.line(t.paint(example.style, example.title+":"))
		for line := range strings.Lines(example.text) {
			out.line("    ", strings.TrimRight(visible(line), "\n"))
		}
	}
	return out.err
}

// visible shows the control characters of an example.
func visible(s string) string { return strings.NewReplacer("\t", "→", "\x00", "␀").Replace(s) }

// wrap breaks a text into lines of at most so many characters, between words.
func wrap(text string, width int) []string {
	var lines []string
	line, length := "", 0
	for word := range strings.FieldsSeq(text) {
		n := human.Width(word)
		if length > 0 && length+1+n > width {
			lines = append(lines, line)
			line, length = "", 0
		}
		if length > 0 {
			line, length = line+" ", length+1
		}
		line, length = line+word, length+n
	}
	return append(lines, line)
}
