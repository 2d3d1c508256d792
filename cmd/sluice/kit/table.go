package kit

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/sluiceml/sluice/cmd/sluice/view"
	"github.com/sluiceml/sluice/internal/human"
)

// Time writes when something was, with the zone.
func Time(t time.Time) string { return t.Local().Format("2006-01-02 15:04 MST") }

// Table writes lines of cells in columns, which are broken where a terminal is too narrow for them.
func Table(out io.Writer, head string, rows func(io.Writer)) error {
	return table(out, view.ThemeOf(out), head, rows)
}

func table(out io.Writer, theme view.Theme, head string, rows func(io.Writer)) error {
	var b bytes.Buffer
	fmt.Fprintln(&b, head)
	rows(&b)
	if theme.Width > 0 {
		var cells [][]string
		for line := range strings.Lines(b.String()) {
			cells = append(cells, strings.Split(strings.TrimSuffix(line, "\n"), "\t"))
		}
		return theme.Columns(out, cells)
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	if _, err := w.Write(b.Bytes()); err != nil {
		return err
	}
	return w.Flush()
}

// Row writes a row of a table.
func Row(w io.Writer, cells ...string) {
	for i := range cells {
		cells[i] = human.Printable(cells[i])
	}
	fmt.Fprintln(w, strings.TrimRight(strings.Join(cells, "\t"), "\t")) //nolint:errcheck // it goes into a buffer
}
