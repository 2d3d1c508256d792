// Package view is what the command line shows: the live table of a run, its summary, runs, plans and records. It only writes; what
// it shows is handed to it.
package view

import (
	"io"
	"net/url"
	"os"
	"regexp"
	"strings"

	"golang.org/x/term"

	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/human"
	"github.com/sluiceml/sluice/report"
)

// Theme says how a stream may be written to.
type Theme struct {
	// Color allows SGR sequences.
	Color bool
	// Terminal is true when the stream is one, so that lines may be drawn again.
	Terminal bool
	// Width of the terminal, in characters: longer lines are folded. 0: nothing is folded.
	Width int
}

// ThemeOf looks at what w is. Colours are used on a terminal only, and not when NO_COLOR is set (no-color.org) or TERM is dumb.
func ThemeOf(w io.Writer) Theme {
	f, ok := w.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) {
		return Theme{}
	}
	dumb := os.Getenv("TERM") == "dumb"
	width, _, err := term.GetSize(int(f.Fd()))
	if err != nil {
		width = 0
	}
	return Theme{Color: os.Getenv("NO_COLOR") == "" && !dumb, Terminal: !dumb, Width: width}
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

// tones are the styles of ends.
var tones = map[spec.Tone]string{spec.ToneFaint: faint, spec.ToneGood: green, spec.ToneLesser: yellow, spec.ToneBad: red}

// mark is the sign of a status and the style it is shown in.
func mark(s spec.Status) (glyph, style string) {
	end, _ := spec.EndOf(s, "")
	switch s {
	case spec.StatusRunning:
		style = cyan
	case spec.StatusHold:
		style = yellow
	default:
		style = tones[end.Tone]
	}
	return report.Glyph(s), style
}

// pad fills s with spaces to a width in cells of the terminal.
func pad(s string, width int) string {
	return s + strings.Repeat(" ", max(0, width-human.Width(s)))
}

// lead is pad with the spaces in front.
func lead(s string, width int) string {
	return strings.Repeat(" ", max(0, width-human.Width(s))) + s
}

// writer counts nothing and formats nothing: it remembers the first error, so that views need not look at each write.
type writer struct {
	w   io.Writer
	err error
}

// folded writes a line in as many as the terminal needs, all but the first indented.
func (w *writer) folded(t Theme, indent int, parts ...string) {
	for _, line := range fold(strings.Join(parts, ""), t.Width, indent) {
		w.line(line)
	}
}

// leastRoom is how many characters a folded line must have after its indent; below that nothing is folded.
const leastRoom = 20

// fold breaks a line at spaces so that no part is wider than width, but for words that are; all parts but the first are indented. SGR
// sequences have no width. Nothing is folded where there is no width, or little room.
func fold(line string, width, indent int) []string {
	if width-indent < leastRoom {
		return []string{line}
	}
	var lines []string
	var b strings.Builder
	column, begun := 0, false // begun: a word stands in this part
	for rest := line; rest != ""; {
		blank := len(rest) - len(strings.TrimLeft(rest, " "))
		end := blank + strings.IndexByte(rest[blank:]+" ", ' ')
		word := rest[blank:end]
		size := human.Width(styles.ReplaceAllString(word, ""))
		if begun && column+blank+size > width {
			lines = append(lines, b.String())
			b.Reset()
			b.WriteString(strings.Repeat(" ", indent))
			column, blank = indent, 0
		}
		b.WriteString(strings.Repeat(" ", blank) + word)
		column += blank + size
		begun = begun || size > 0
		rest = rest[end:]
	}
	return append(lines, b.String())
}

// styles finds SGR sequences.
var styles = regexp.MustCompile("\x1b\\[[0-9;]*m")

func (w *writer) line(parts ...string) {
	if w.err == nil {
		_, w.err = io.WriteString(w.w, strings.TrimRight(strings.Join(parts, ""), " ")+"\n")
	}
}

// Page is the address of a page in Temporal's UI. The key in it is for the person at a terminal: a log is read by others, too.
func (t Theme) Page(address string) string {
	u, err := url.Parse(address)
	if t.Terminal || err != nil {
		return address
	}
	query := u.Query()
	query.Del("key")
	u.RawQuery = query.Encode()
	return u.String()
}
