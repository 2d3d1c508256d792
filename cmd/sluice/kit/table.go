package kit

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/sluiceml/sluice/internal/human"
)

// Time writes when something was, with the zone.
func Time(t time.Time) string { return t.Local().Format("2006-01-02 15:04 MST") }

// Table writes lines of cells in columns.
func Table(out io.Writer, head string, rows func(io.Writer)) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, head) //nolint:errcheck // Flush has the error
	rows(w)
	return w.Flush()
}

// Row writes a row of a table.
func Row(w io.Writer, cells ...string) {
	for i := range cells {
		cells[i] = human.Printable(cells[i])
	}
	fmt.Fprintln(w, strings.TrimRight(strings.Join(cells, "\t"), "\t")) //nolint:errcheck // Flush has the error
}
