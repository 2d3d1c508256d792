package view

import (
	"io"
	"strings"
	"time"

	"github.com/sluiceml/sluice/activities/contract"
	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/human"
	"github.com/sluiceml/sluice/report"
	"github.com/sluiceml/sluice/store/record"
)

// Listed is a run as `sluice list` shows it.
type Listed struct {
	record.RunRecord
	// Waits is what the run waits for before it begins.
	Waits string `json:"waits,omitempty"`
	// Waiting is what waits for a person now.
	Waiting []contract.ApprovalState `json:"waiting,omitempty"`
	// Unattended: no Sluice carries the run now.
	Unattended bool `json:"unattended,omitempty"`
}

// startForm is how the start of a run is written among others.
const startForm = "2006-01-02 15:04"

// Origin is when a run was started, and with which parameters.
func Origin(r record.RunRecord) string {
	return strings.TrimSuffix("started "+r.StartedAt.Local().Format(startForm)+separator+params(r), separator)
}

// params are those of a run in one line that is not too long.
func params(r record.RunRecord) string { return human.Cut(fields(r.Params), 60) }

// Runs writes one line for each of one or more runs, and under it what waits for a person.
func (t Theme) Runs(w io.Writer, runs []Listed, now time.Time) error {
	out := writer{w: w}
	ids, names := len("run"), len("pipeline")
	for _, r := range runs {
		ids, names = max(ids, len(r.Run)), max(names, len(r.Pipeline))
	}
	zone, _ := now.Local().Zone()
	started := max(len(startForm), len("started ")+len(zone))
	const statusColumn = 11
	narrow := t.Width > 0 && ids+names+statusColumn+started+8+8 > t.Width // then the name that begins a run's has to do
	named := func(name string) string {
		if narrow {
			return ""
		}
		return pad(name, names) + "  "
	}
	out.line(t.paint(faint, pad("run", ids)+"  "+named("pipeline")+pad("status", statusColumn)+"  "+pad("started "+zone, started)+"  "+lead("time", 8)))
	for _, r := range runs {
		glyph, style := mark(r.Status)
		line := pad(r.Run, ids) + "  " + named(r.Pipeline) + t.paint(style, pad(glyph+" "+report.Word(r.Status), statusColumn)) + "  " +
			pad(r.StartedAt.Local().Format(startForm), started) + "  " + lead(spent(r.Status, r.StartedAt, r.EndedAt, now), 8)
		if given := params(r.RunRecord); given != "" {
			line += "  " + t.paint(faint, given)
		}
		if text := why(r.Status, r.Error); text != "" && r.Status != spec.StatusSucceeded {
			line += "  " + t.paint(faint, human.Cut(text, 100))
		}
		out.folded(t, 4, line)
		if r.Waits != "" {
			out.line("  ", t.paint(yellow, "◆ waiting: "+human.Line(r.Waits)))
		}
		if r.Unattended {
			out.folded(t, 4, "  ", t.paint(yellow, "not executing now: start `sluice up`"))
		}
		for _, a := range r.Waiting {
			question, _ := Question(a, now)
			if a.Run != r.Run {
				question = "in " + a.Run + ": " + question
			}
			out.folded(t, 4, "  ", t.paint(yellow, "◆ "+question))
		}
	}
	return out.err
}
