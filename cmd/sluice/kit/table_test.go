package kit

import (
	"bytes"
	"io"
	"testing"

	"github.com/sluiceml/sluice/cmd/sluice/view"
)

// A pipe gets each row on a line, and a terminal the same words on lines that it has room for.
func TestTable(t *testing.T) {
	write := func(theme view.Theme) string {
		var b bytes.Buffer
		err := table(&b, theme, "name\ttype\tversion\t\trows\tsize\tpublished\trun\ttags", func(w io.Writer) {
			Row(w, "reviews", "dataset", "0123abcd", "*", "1,234,567", "12.3 MB", "2026-03-14 12:00 UTC", "spam-filter-20260314-1200/clean", "golden, holdout")
			Row(w, "spam", "model", "77c2", "", "-", "1 MB", "2026-03-14 12:00 UTC", "spam-filter-20260314-1200/fit", "")
		})
		if err != nil {
			t.Fatal(err)
		}
		return b.String()
	}
	const want = `name     type     version      rows       size     published             run                              tags
reviews  dataset  0123abcd  *  1,234,567  12.3 MB  2026-03-14 12:00 UTC  spam-filter-20260314-1200/clean  golden, holdout
spam     model    77c2         -          1 MB     2026-03-14 12:00 UTC  spam-filter-20260314-1200/fit
`
	if got := write(view.Theme{}); got != want {
		t.Errorf("a pipe gets\n%s", got)
	}
	const folded = `name     type     version      rows       size     published
    run                              tags
reviews  dataset  0123abcd  *  1,234,567  12.3 MB  2026-03-14 12:00 UTC
    spam-filter-20260314-1200/clean  golden, holdout
spam     model    77c2         -          1 MB     2026-03-14 12:00 UTC
    spam-filter-20260314-1200/fit
`
	if got := write(view.Theme{Width: 80}); got != folded {
		t.Errorf("a terminal gets\n%s", got)
	}
}
