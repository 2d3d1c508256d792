package view

import (
	"io"
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
	// Lost says why a run that has not ended never will.
	Lost string `json:"lost,omitempty"`
}

// Lost says why a run that has not ended never will, and what to do.
func Lost(run, why string) string {
	return "lost: " + why + "; `sluice cancel " + run + "` closes its record"
}

// Runs writes one line per run, and under it what waits for a person.
func (t Theme) Runs(w io.Writer, runs []Listed, now time.Time) error {
	out := writer{w: w}
	if len(runs) == 0 {
		out.line("no runs yet; start one with `sluice run PIPELINE`")
		return out.err
	}
	ids, names := len("run"), len("pipeline")
	for _, r := range runs {
		ids, names = max(ids, len(r.Run)), max(names, len(r.Pipeline))
	}
	out.line(t.paint(faint, pad("run", ids)+"  "+pad("pipeline", names)+"  "+pad("status", 11)+"  "+pad("started", 16)+"  "+lead("time", 8)))
	for _, r := range runs {
		glyph, style := mark(r.Status)
		line := pad(r.Run, ids) + "  " + pad(r.Pipeline, names) + "  " + t.paint(style, pad(glyph+" "+report.Word(r.Status), 11)) + "  " +
			r.StartedAt.Local().Format("2006-01-02 15:04") + "  " + lead(spent(r.Status, r.StartedAt, r.EndedAt, now), 8)
		if r.Error != "" && r.Status != spec.StatusSucceeded {
			line += "  " + t.paint(faint, human.Cut(human.Line(r.Error), 100))
		}
		out.line(line)
		if r.Waits != "" {
			out.line("  ", t.paint(yellow, "◆ waits: "+human.Line(r.Waits)))
		}
		if r.Lost != "" {
			out.line("  ", t.paint(red, Lost(r.Run, r.Lost)))
		}
		for _, a := range r.Waiting {
			question, _ := Question(a, now)
			if a.Run != r.Run {
				question = "in " + a.Run + ": " + question
			}
			out.line("  ", t.paint(yellow, "◆ "+question))
		}
	}
	return out.err
}
