package view

import (
	"cmp"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/human"
	"github.com/sluiceml/sluice/report"
	"github.com/sluiceml/sluice/store/record"
)

// Summary is the steps of a run as a table.
type Summary struct {
	Graph []spec.Node
	Steps []record.StepRecord
	// Doing is what running steps say of themselves, by step.
	Doing map[string]Detail
	// Attempts adds each attempt that did not succeed, with its reason.
	Attempts bool
	// Waits is what the run waits for before it begins.
	Waits string
}

// Summary writes the steps of a run with their status, time, outputs in brief and gates with what they saw.
func (t Theme) Summary(w io.Writer, s Summary, now time.Time) error {
	out := &writer{w: w}
	sections := map[string]spec.Section{}
	for _, node := range s.Graph {
		sections[node.ID] = node.Section
	}
	ids := t.summaryHead(out, s.Steps)
	section := spec.SectionMain
	for _, step := range s.Steps {
		if now := sections[step.Step]; now != section {
			section = now
			out.line(t.paint(faint, string(section)))
		}
		t.summaryStep(out, ids, step, s, now)
	}
	return out.err
}

// statusWidth is that of the column with the status.
const statusWidth = len("succeeded") + 2

func (t Theme) summaryHead(out *writer, steps []record.StepRecord) (ids int) {
	ids = len("step")
	for _, s := range steps {
		ids = max(ids, len(s.Step))
	}
	out.line(t.paint(faint, pad("step", ids)+"  "+pad("status", statusWidth)+"  "+lead("time", 8)+"  result"))
	return ids
}

// summaryStep writes one step's line, and under it its gate, who decided, its attempts and the rest of its error.
func (t Theme) summaryStep(out *writer, ids int, s record.StepRecord, of Summary, now time.Time) {
	glyph, style := mark(s.Status)
	indent := strings.Repeat(" ", ids+2)
	hang := ids + 2 + statusWidth + 2 + 8 + 2
	if t.Width < 2*hang { // the column is too narrow for what is said
		hang = len(indent)
	}
	out.folded(t, hang, t.paint(bold, pad(s.Step, ids)), "  ", t.paint(style, pad(glyph+" "+report.Word(s.Status), statusWidth)), "  ",
		lead(spent(s.Status, s.StartedAt, s.EndedAt, now), 8), "  ",
		cmp.Or(result(s), human.Line(of.Doing[s.Step].Text)))
	if s.ChildRun != "" {
		out.line(indent, t.paint(faint, "child run  "), s.ChildRun)
	}
	for _, c := range s.Checks {
		out.folded(t, len(indent)+2, indent, t.gate(c))
	}
	for _, d := range report.Decided(s) {
		out.folded(t, len(indent)+2, indent, t.paint(yellow, "◆ "), decision(d), t.paint(faint, "   "+d.At.Local().Format(clockForm)))
	}
	if n := len(s.Attempts); of.Attempts && (n > 1 || n == 1 && s.Status != spec.StatusFailed) {
		for i, a := range s.Attempts {
			out.folded(t, len(indent)+2, indent, t.paint(red, "✗ "), fmt.Sprintf("attempt %d  ", i+1), t.paint(faint, report.AttemptEnd(a)+"  "+human.Duration(a.EndedAt.Sub(a.StartedAt))),
				"  ", human.Line(a.Error))
		}
	}
	if s.Status != spec.StatusFailed {
		return
	}
	if _, rest, more := strings.Cut(strings.TrimSpace(human.Printable(s.Error)), "\n"); more {
		for line := range strings.Lines(rest) {
			out.folded(t, len(indent)+2, indent, t.paint(faint, "│ "), strings.TrimRight(line, "\n"))
		}
	}
}

// why is the first line of what is said of a step, less what its status says already.
func why(status spec.Status, text string) string {
	line := human.Line(text)
	if line == report.Word(status) {
		return ""
	}
	return strings.TrimPrefix(line, report.Word(status)+": ")
}

// result is what a step handed on, or why it did not.
func result(s record.StepRecord) string {
	var parts []string
	if s.Matrix != nil || s.Item != nil {
		parts = append(parts, subject(s))
	}
	switch {
	case s.Status == spec.StatusSucceeded:
		if brief := report.Brief(s); brief != "" {
			parts = append(parts, brief)
		}
	case s.Error != "":
		if text := why(s.Status, s.Error); text != "" {
			parts = append(parts, text)
		}
		if s.Trained() != nil { // what it did until then is what the money was for
			if brief := report.Brief(s); brief != "" {
				parts = append(parts, brief)
			}
		}
	}
	switch n := int64(len(s.Attempts)); {
	case n > 0 && s.Status == spec.StatusSucceeded:
		parts = append(parts, "after "+report.Unsuccessful(s.Attempts))
	case n > 1 && s.Status == spec.StatusFailed:
		parts = append(parts, human.Plural(n, "attempt"))
	}
	if len(s.Published) > 0 {
		parts = append(parts, "published "+strings.Join(s.Published, ", "))
	}
	if s.ReusedFrom != "" {
		parts = append(parts, "taken from "+s.ReusedFrom)
	}
	if s.CostUSD > 0 {
		parts = append(parts, dollars(s.CostUSD))
	}
	return human.Printable(strings.Join(parts, separator))
}

// Ending is the last line of a run: "spam-filter: succeeded".
func (t Theme) Ending(w io.Writer, pipeline string, end record.RunOutput) error {
	out := writer{w: w}
	_, style := mark(end.Status)
	line := pipeline + ": " + t.paint(style, report.Word(end.Status))
	if end.Error != "" && end.Status != spec.StatusSucceeded && end.Status != spec.StatusCanceled {
		line += ": " + human.Line(end.Error)
	}
	out.folded(t, 2, line)
	return out.err
}
