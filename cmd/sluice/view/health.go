package view

import (
	"io"
	"strings"
)

// Health is how a finding of the doctor is.
type Health string

// The healths.
const (
	Fine    Health = ""        // it is there
	Note    Health = "note"    // only some pipelines miss it
	Missing Health = "missing" // it is needed
)

// Finding is one thing the doctor looked at.
type Finding struct {
	Name   string `json:"name"`
	State  Health `json:"state,omitempty"`
	Detail string `json:"detail"`
	// Help says how to get what is missing.
	Help string `json:"help,omitempty"`
}

// Health writes the doctor's findings.
func (t Theme) Health(w io.Writer, findings []Finding) error {
	out := writer{w: w}
	width := 0
	for _, f := range findings {
		width = max(width, len(f.Name))
	}
	for _, f := range findings {
		glyph, style := "✓", green
		switch f.State {
		case Fine:
		case Note:
			glyph, style = "!", yellow
		case Missing:
			glyph, style = "✗", red
		}
		indent := strings.Repeat(" ", width+4)
		first, rest, _ := strings.Cut(strings.TrimSpace(f.Detail), "\n")
		out.folded(t, width+4, t.paint(style, glyph), " ", t.paint(bold, pad(f.Name, width)), "  ", first)
		for line := range strings.Lines(rest) {
			out.folded(t, width+4, indent, strings.TrimSuffix(line, "\n"))
		}
		if f.Help != "" {
			out.folded(t, width+4, indent, t.paint(cyan, "help: "), f.Help)
		}
	}
	return out.err
}
