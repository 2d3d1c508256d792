package view

import (
	"io"
	"slices"
	"strings"

	"github.com/sluiceml/sluice/internal/human"
)

const (
	columnGap = 2 // between columns
	rowHang   = 4 // the indent of the further lines of a row
)

// Columns writes rows of cells in columns for a terminal. Where they are wider than it, all rows continue on a further line from the
// same column on, so that the columns stay aligned; a long text is folded below itself. A row with a single cell is a title.
func (t Theme) Columns(w io.Writer, rows [][]string) error {
	out := &writer{w: w}
	out.columns(t, rows)
	return out.err
}

// padded writes a head and rows of cells that are padded to the widths of their columns, with the gaps: as they are where the terminal
// is wide enough, and otherwise without the spare room and in columns.
func (w *writer) padded(t Theme, head []string, rows [][]string) {
	narrow := t.Width > 0 && slices.ContainsFunc(append(rows, head), func(row []string) bool {
		return cellWidth(strings.TrimRight(strings.Join(row, ""), " ")) > t.Width
	})
	if narrow {
		rows = squeeze(append([][]string{head}, rows...))
		for i, cell := range rows[0] {
			rows[0][i] = t.paint(faint, cell)
		}
		w.columns(t, rows)
		return
	}
	w.line(t.paint(faint, strings.Join(head, "")))
	for _, row := range rows {
		w.line(row...)
	}
}

// squeeze removes the blanks that all cells of a column have before them, and those after them.
func squeeze(rows [][]string) [][]string {
	squeezed := make([][]string, len(rows))
	for i, row := range rows {
		squeezed[i] = slices.Clone(row)
	}
	for i := range rows[0] {
		before := -1
		for _, row := range rows {
			if i < len(row) && strings.TrimSpace(row[i]) != "" {
				if blank := len(row[i]) - len(strings.TrimLeft(row[i], " ")); before < 0 || blank < before {
					before = blank
				}
			}
		}
		for _, row := range squeezed {
			if i < len(row) {
				row[i] = strings.TrimRight(row[i][min(max(before, 0), len(row[i])):], " ")
			}
		}
	}
	return squeezed
}

func (w *writer) columns(t Theme, rows [][]string) {
	var widths, longest []int // of the columns, and of their longest words
	for _, row := range rows {
		for i, cell := range row {
			if i == len(widths) {
				widths, longest = append(widths, 0), append(longest, 0)
			}
			if len(row) > 1 {
				widths[i] = max(widths[i], cellWidth(cell))
				longest[i] = max(longest[i], longestWord(cell))
			}
		}
	}
	breaks := lineBreaks(widths, longest, t.Width)
	for _, row := range rows {
		if len(row) == 1 {
			w.folded(t, rowHang, row[0])
			continue
		}
		for i, from := range breaks[:len(breaks)-1] {
			w.cells(t, row[min(from, len(row)):min(breaks[i+1], len(row))], widths[from:], from > 0)
		}
	}
}

// lineBreaks are the columns with which the lines of a row begin, and the number of columns.
func lineBreaks(widths, longest []int, width int) []int {
	breaks := []int{0}
	if width <= 0 {
		return append(breaks, len(widths))
	}
	used := 0
	for i, column := range widths {
		room := width - used
		folds := room >= leastRoom && (longest[i] <= room || len(widths) == 2) // of names with texts, a text has the line
		if column > room && !folds && used > rowHang {
			breaks = append(breaks, i)
			used = rowHang
		}
		used += column + columnGap
	}
	return append(breaks, len(widths))
}

// cells writes a part of a row on a line; its last cell is folded below itself, or with a small indent if a word has no room there.
func (w *writer) cells(t Theme, cells []string, widths []int, further bool) {
	line, column := "", 0
	if further {
		line = strings.Repeat(" ", rowHang)
	}
	blank := true
	for i, cell := range cells {
		column = cellWidth(line)
		blank = blank && cell == ""
		line += cell + strings.Repeat(" ", max(0, widths[i]-cellWidth(cell))+columnGap)
	}
	if blank {
		return
	}
	if column+longestWord(cells[len(cells)-1]) > t.Width || t.Width-column < leastRoom {
		column = rowHang
	}
	w.folded(t, column, strings.TrimRight(line, " "))
}

// cellWidth is the width of a cell as it is shown.
func cellWidth(cell string) int { return human.Width(styles.ReplaceAllString(cell, "")) }

// longestWord is the width of what cannot be folded of a cell.
func longestWord(cell string) int {
	longest := 0
	for word := range strings.FieldsSeq(cell) {
		longest = max(longest, cellWidth(word))
	}
	return longest
}
