package report

import (
	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/human"
	"github.com/sluiceml/sluice/store/record"
)

// chartWidth is that of the charts, in SVG units.
const chartWidth = 920

// timeline shows when each step ran; a training step in its generations. What stands along the time is in percent of it, for the page to
// be as narrow as a phone.
type timeline struct {
	Rows  []timeRow
	Ticks []tick
	// TickStep is the distance of two ticks.
	TickStep float64
}

type timeRow struct {
	Step   string
	Status spec.Status
	Bars   []bar
	Time   string
}

type bar struct {
	X, Width float64
	Class    string
	Title    string
	// Cap is the style of a mark at the bar's end: how a generation ended before the last.
	Cap string
}

func newTimeline(d Data) timeline {
	var t timeline
	total := span(d.Run.StartedAt, d.Run.EndedAt, d.Now)
	if total <= 0 {
		return t
	}
	x := scale{high: total, to: 100}
	for _, s := range d.Steps {
		if s.StartedAt.IsZero() || s.Status.IsIdle() || s.ReusedFrom != "" {
			continue
		}
		seconds := span(s.StartedAt, s.EndedAt, d.Now)
		t.Rows = append(t.Rows, timeRow{Step: s.Step, Status: s.Status, Bars: bars(s, d, x), Time: human.Seconds(seconds)})
	}
	if t.Ticks = x.ticks(8); len(t.Ticks) > 1 {
		t.TickStep = t.Ticks[1].At - t.Ticks[0].At
	}
	return t
}

// bars is one bar for a step, and one for each generation of its gang of nodes.
func bars(s record.StepRecord, d Data, x scale) []bar {
	since := func(from, to float64, class, title string) bar {
		return bar{X: x.at(from), Width: x.at(to) - x.at(from), Class: class, Title: title}
	}
	begin := s.StartedAt.Sub(d.Run.StartedAt).Seconds()
	whole := since(begin, begin+span(s.StartedAt, s.EndedAt, d.Now), string(s.Status), s.Step)
	trained := s.Trained()
	if trained == nil {
		return []bar{whole}
	}
	whole.Class += " faded"
	all := []bar{whole}
	for _, g := range decode[spec.TrainOutput](trained).Generations {
		from, to := g.StartedAt.Sub(d.Run.StartedAt).Seconds(), g.EndedAt.Sub(d.Run.StartedAt).Seconds()
		b := since(from, to, "accent", generationTitle(s.Kind, g))
		if g.End != spec.EndFinished {
			b.Cap = endClass(g.End)
		}
		all = append(all, b)
	}
	return all
}

func generationTitle(kind spec.Kind, g spec.Generation) string {
	return "generation " + human.Count(int64(g.Index)) + ": " + HowEnded(kind, g)
}
