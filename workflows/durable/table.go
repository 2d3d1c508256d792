package durable

import (
	"fmt"
	"strings"
	"time"
)

// MaxRows limits the rows of a table in Temporal's UI.
const MaxRows = 60

// Elapsed describes how long something took, or, if it is still running, when it began: the table is not updated just because time passes.
func Elapsed(from, to time.Time) string {
	switch {
	case from.IsZero():
		return ""
	case to.IsZero():
		return "since " + from.UTC().Format("2006-01-02 15:04:05") + " UTC"
	}
	return to.Sub(from).Round(100 * time.Millisecond).String()
}

// TableHead begins a Markdown table.
func TableHead(names ...any) string {
	return TableRow(names...) + "|" + strings.Repeat("---|", len(names)) + "\n"
}

// Space follows each cell, because Temporal's UI draws columns without space between them. Markdown does not trim it.
const Space = '\u2003'

// Unbroken keeps text on one line.
var Unbroken = strings.NewReplacer(" ", "\u00a0", "-", "\u2011")

// TableRow is a row of a Markdown table.
func TableRow(cells ...any) string {
	var b strings.Builder
	for i, c := range cells {
		if i > 0 {
			b.WriteRune(Space)
		}
		fmt.Fprintf(&b, "| %v", c)
	}
	return b.String() + " |\n"
}

// Cell makes text fit one cell of a Markdown table.
func Cell(s string) string {
	s, _, _ = strings.Cut(s, "\n")
	return strings.ReplaceAll(s, "|", `\|`)
}
