package view

import (
	"cmp"
	"io"
	"strings"
	"time"

	"github.com/sluiceml/sluice/activities/contract"
	"github.com/sluiceml/sluice/dsl"
	"github.com/sluiceml/sluice/internal/human"
	"github.com/sluiceml/sluice/report"
)

// Summary writes the steps of a run with their status, time, outputs in brief and gates with what they saw. doing is what running
// steps say of themselves, by step.
func (t Theme) Summary(w io.Writer, steps []contract.StepRecord, doing map[string]Detail, now time.Time) error {
	out := writer{w: w}
	ids, words := len("step"), len("succeeded")
	for _, s := range steps {
		ids = max(ids, len(s.Step))
	}
	out.line(t.paint(faint, pad("step", ids)+"  "+pad("status", words+2)+"  "+lead("time", 8)+"  result"))
	for _, s := range steps {
		glyph, style := mark(s.Status)
		out.line(t.paint(bold, pad(s.Step, ids)), "  ", t.paint(style, pad(glyph+" "+word(s.Status), words+2)), "  ",
			lead(spent(s.Status, s.StartedAt, s.EndedAt, now), 8), "  ",
			cmp.Or(result(s), human.Line(doing[s.Step].Text)))
		indent := strings.Repeat(" ", ids+2)
		for _, c := range s.Checks {
			out.line(indent, t.gate(c))
		}
		if s.Status != dsl.StatusFailed {
			continue
		}
		if _, rest, more := strings.Cut(strings.TrimSpace(human.Printable(s.Error)), "\n"); more {
			for line := range strings.Lines(rest) {
				out.line(indent, t.paint(faint, "│ "), strings.TrimRight(line, "\n"))
			}
		}
	}
	return out.err
}

// why is the first line of what is said of a step, less what its status says already.
func why(status dsl.Status, text string) string {
	line := human.Line(text)
	if line == word(status) {
		return ""
	}
	return strings.TrimPrefix(line, word(status)+": ")
}

// result is what a step handed on, or why it did not.
func result(s contract.StepRecord) string {
	var parts []string
	switch {
	case s.Status == dsl.StatusSucceeded:
		if brief := report.Brief(s); brief != "" {
			parts = append(parts, brief)
		}
	case s.Error != "":
		parts = append(parts, why(s.Status, s.Error))
	}
	switch n := int64(len(s.Attempts)); {
	case n > 0 && s.Status == dsl.StatusSucceeded:
		parts = append(parts, "after "+human.Plural(n, "failed attempt"))
	case n > 1 && s.Status == dsl.StatusFailed:
		parts = append(parts, human.Plural(n, "attempt"))
	}
	if len(s.Published) > 0 {
		parts = append(parts, "published "+strings.Join(s.Published, ", "))
	}
	if s.ReusedFrom != "" {
		parts = append(parts, "taken from "+s.ReusedFrom)
	}
	return human.Printable(strings.Join(parts, separator))
}

// Ending is the last line of a run: "spam-filter: succeeded".
func (t Theme) Ending(w io.Writer, pipeline string, end contract.RunOutput) error {
	out := writer{w: w}
	_, style := mark(end.Status)
	line := pipeline + ": " + t.paint(style, word(end.Status))
	if end.Error != "" && end.Status != dsl.StatusSucceeded && end.Status != dsl.StatusCanceled {
		line += ": " + human.Line(end.Error)
	}
	out.line(line)
	return out.err
}
