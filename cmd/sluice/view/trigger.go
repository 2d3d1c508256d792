package view

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/sluiceml/sluice/activities/contract"
	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/human"
	"github.com/sluiceml/sluice/report"
)

// TriggerPlan writes what applying triggers would change, a line for each field.
func (t Theme) TriggerPlan(w io.Writer, changes []contract.TriggerChange) error {
	out := writer{w: w}
	kept := 0
	for _, change := range changes {
		var sign, style string
		switch change.Action {
		case contract.TriggerCreate:
			sign, style = "+", green
		case contract.TriggerUpdate:
			sign, style = "~", yellow
		case contract.TriggerDelete:
			sign, style = "-", red
		case contract.TriggerKeep:
			kept++
			continue
		}
		out.line(t.paint(style, sign+" "+change.Trigger), "  ", t.paint(faint, change.Kind))
		width := 0
		for _, f := range change.Fields {
			width = max(width, len(f.Field))
		}
		for _, f := range change.Fields {
			out.line("    ", t.fieldChange(f, width))
		}
	}
	if kept > 0 {
		out.line(t.paint(faint, human.Plural(int64(kept), "trigger")+" unchanged"))
	}
	return out.err
}

func (t Theme) fieldChange(f contract.FieldChange, width int) string {
	name, was, is := pad(f.Field, width), human.Printable(f.Old), human.Printable(f.New)
	switch {
	case was == "":
		return t.paint(green, "+ "+name+"  "+is)
	case is == "":
		return t.paint(red, "- "+name+"  "+was)
	}
	return t.paint(yellow, "~ "+name+"  "+was+" -> "+is)
}

// Triggers writes one line per trigger.
func (t Theme) Triggers(w io.Writer, triggers []contract.Trigger, now time.Time) error {
	out := writer{w: w}
	if len(triggers) == 0 {
		out.line("no triggers yet; `sluice schedule apply PIPELINE` adds those of a pipeline")
		return out.err
	}
	names, runs := len("trigger"), len("last run")
	for _, tr := range triggers {
		names = max(names, len(tr.Name))
		if len(tr.Runs) > 0 {
			runs = max(runs, len(tr.Runs[0].Run))
		}
	}
	head := []string{pad("trigger", names) + "  ", pad("kind", 8) + "  ", pad("next", clockWidth) + "  ", pad("last run", runs) + "  ", "status"}
	var rows [][]string
	for _, tr := range triggers {
		last, status := "", ""
		if len(tr.Runs) > 0 {
			last, status = tr.Runs[0].Run, t.runStatus(tr.Runs[0])
		}
		if tr.Look != nil && tr.Look.Error != "" {
			status += "  " + t.paint(red, human.Cut(human.Line(tr.Look.Error), 100))
		}
		rows = append(rows, []string{pad(tr.Name, names) + "  ", pad(tr.Kind, 8) + "  ", t.next(tr, now) + "  ", pad(last, runs) + "  ", status})
	}
	out.padded(t, head, rows)
	return out.err
}

// clockForm is how a time is written, in the zone of this machine.
const clockForm = "2006-01-02 15:04:05 MST"

// clockWidth has room for the longest names of zones.
const clockWidth = len(clockForm) + 2

// next is when a trigger acts next, padded.
func (t Theme) next(tr contract.Trigger, now time.Time) string {
	switch {
	case tr.Paused:
		return t.paint(yellow, pad("paused", clockWidth))
	case len(tr.Next) == 0:
		return t.paint(faint, pad("never", clockWidth))
	case tr.Next[0].Before(now.Add(-time.Minute)):
		return t.paint(yellow, pad("overdue", clockWidth))
	}
	return pad(tr.Next[0].Local().Format(clockForm), clockWidth)
}

func (t Theme) runStatus(r contract.TriggerRun) string {
	glyph, style := mark(r.Status)
	return t.paint(style, glyph+" "+report.Word(r.Status))
}

// Trigger writes all that is known of a trigger.
func (t Theme) Trigger(w io.Writer, tr contract.Trigger) error {
	out := writer{w: w}
	out.line(t.paint(bold, tr.Name), "  ", t.paint(faint, tr.Kind))
	for _, line := range specLines(tr) {
		out.line("  ", line)
	}
	if tr.Paused {
		reason := ""
		if tr.Note != "" {
			reason = ": " + human.Line(tr.Note)
		}
		out.line("  ", t.paint(yellow, "paused"+reason))
	}
	if look := tr.Look; look != nil {
		said, style := look.Saw, ""
		if look.Error != "" {
			said, style = look.Error, red
		}
		out.folded(t, 14, "  ", pad("looked", 10), "  ", look.At.Local().Format(clockForm), "  ", t.paint(style, human.Line(said)))
	}
	for i, at := range tr.Next[:min(5, len(tr.Next))] {
		label := ""
		if i == 0 {
			label = "next"
		}
		out.line("  ", pad(label, 10), "  ", at.Local().Format(clockForm))
	}
	if tr.Skipped+tr.Missed > 0 {
		out.line("  ", pad("skipped", 10), "  ", fmt.Sprintf("%d while a run was open, %d too late", tr.Skipped, tr.Missed))
	}
	for i, r := range tr.Runs {
		label := ""
		if i == 0 {
			label = "runs"
		}
		line := pad(label, 10) + "  " + r.At.Local().Format(clockForm) + "  " + r.Run + "  " + t.runStatus(r)
		if r.Error != "" {
			line += "  " + t.paint(faint, human.Cut(human.Line(r.Error), 100))
		}
		out.folded(t, 14, "  ", line)
	}
	return out.err
}

// specLines are the keys of a trigger as they were applied.
func specLines(tr contract.Trigger) []string {
	raw, err := json.Marshal(tr.Spec)
	var kinds map[string]spec.Values
	if err != nil || json.Unmarshal(raw, &kinds) != nil {
		return nil
	}
	var lines []string
	for _, key := range slices.Sorted(maps.Keys(kinds[tr.Kind])) {
		lines = append(lines, pad(key, 10)+"  "+listed(kinds[tr.Kind][key]))
	}
	for _, name := range slices.Sorted(maps.Keys(kinds["params"])) {
		lines = append(lines, pad("params", 10)+"  "+name+" = "+human.Value(kinds["params"][name]))
	}
	return lines
}

// listed writes a value, and a list as its elements.
func listed(v any) string {
	items, ok := v.([]any)
	if !ok {
		return human.Value(v)
	}
	parts := make([]string, len(items))
	for i, item := range items {
		parts[i] = human.Value(item)
	}
	return strings.Join(parts, separator)
}
