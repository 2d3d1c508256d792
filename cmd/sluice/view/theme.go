// Package view is what the command line shows: the live table of a run, its summary, runs, plans and records. It only writes; what
// it shows is handed to it.
package view

import (
	"io"
	"os"
	"strings"
	"unicode/utf8"

	"golang.org/x/term"

	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/report"
)

// Theme says how a stream may be written to.
type Theme struct {
	// Color allows SGR sequences.
	Color bool
	// Terminal is true when the stream is one, so that lines may be drawn again.
	Terminal bool
}

// ThemeOf looks at what w is. Colours are used on a terminal only, and not when NO_COLOR is set (no-color.org) or TERM is dumb.
func ThemeOf(w io.Writer) Theme {
	f, ok := w.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) {
		return Theme{}
	}
	dumb := os.Getenv("TERM") == "dumb"
	return Theme{Color: os.Getenv("NO_COLOR") == "" && !dumb, Terminal: !dumb}
}

// The styles, as SGR parameters.
const (
	bold   = "1"
	faint  = "2"
	red    = "31"
	green  = "32"
	yellow = "33"
	cyan   = "36"
)

// Paint wraps s in a style.
func (t Theme) paint(style, s string) string {
	if !t.Color || style == "" || s == "" {
		return s
	}
	return "\x1b[" + style + "m" + s + "\x1b[0m"
}

// statusStyles are what statuses are shown in.
var statusStyles = map[spec.Status]string{
	spec.StatusSucceeded: green, spec.StatusFailed: red, spec.StatusDeclined: yellow, spec.StatusCanceled: yellow, spec.StatusRunning: cyan,
	spec.StatusHold: yellow, spec.StatusSkipped: faint, spec.StatusUpstream: faint, spec.StatusPending: faint,
}

// mark is the sign of a status and the style it is shown in.
func mark(s spec.Status) (glyph, style string) { return report.Glyph(s), statusStyles[s] }

// pad fills s with spaces to a width in characters; every character used here is one column wide.
func pad(s string, width int) string {
	return s + strings.Repeat(" ", max(0, width-utf8.RuneCountInString(s)))
}

// lead is pad with the spaces in front.
func lead(s string, width int) string {
	return strings.Repeat(" ", max(0, width-utf8.RuneCountInString(s))) + s
}

// writer counts nothing and formats nothing: it remembers the first error, so that views need not look at each write.
type writer struct {
	w   io.Writer
	err error
}

func (w *writer) line(parts ...string) {
	if w.err == nil {
		_, w.err = io.WriteString(w.w, strings.TrimRight(strings.Join(parts, ""), " ")+"\n")
	}
}
