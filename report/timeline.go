package report

import (
	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/human"
	"github.com/sluiceml/sluice/store/record"
)

// The timeline's measures.
const (
	chartWidth = 920
	labelWidth = 120
	rowHeight  = 26
	axisHeight = 24
	timeWidth  = 60 // of "2h 05m" after a bar that ends at the right
)

// timeline shows when each step ran; a training step in its generations.
type timeline struct {
	Width, Height, Left, Right, Bottom float64
	Rows                               []timeRow
	Ticks                              []tick
}

type timeRow struct {
	Y      float64
	Step   string
	Status spec.Status
	Bars   []bar
	Time   string
	TimeX  float64
}

type bar struct {
	X, Width float64
	Class    string
	Title    string
	// Cap is the style of a mark at the bar's end, at CapX: how a generation ended before the last.
	Cap  string
	CapX float64
}

func newTimeline(d Data) timeline {
	t := timeline{Width: chartWidth, Left: labelWidth, Right: chartWidth - timeWidth}
	total := span(d.Run.StartedAt, d.Run.EndedAt, d.Now)
	if total <= 0 {
		return t
	}
	x := scale{high: total, from: t.Left, to: t.Right}
	for _, s := range d.Steps {
		if s.StartedAt.IsZero() || s.Status.IsIdle() || s.ReusedFrom != "" {
			continue
		}
		row := timeRow{Y: float64(len(t.Rows)) * rowHeight, Step: human.Cut(s.Step, 15), Status: s.Status}
		row.Bars = bars(s, d, x)
		begin := s.StartedAt.Sub(d.Run.StartedAt).Seconds()
		seconds := span(s.StartedAt, s.EndedAt, d.Now)
		row.Time, row.TimeX = human.Seconds(seconds), x.at(begin+seconds)+6
		t.Rows = append(t.Rows, row)
	}
	t.Bottom = float64(len(t.Rows)) * rowHeight
	t.Height = t.Bottom + axisHeight
	t.Ticks = x.ticks(8)
	return t
}

// bars is one bar for a step, or one for each generation of a training.
func bars(s record.StepRecord, d Data, x scale) []bar {
	since := func(from, to float64, class, title string) bar {
		return bar{X: x.at(from), Width: max(2, x.at(to)-x.at(from)), Class: class, Title: title}
	}
	begin := s.StartedAt.Sub(d.Run.StartedAt).Seconds()
	whole := since(begin, begin+span(s.StartedAt, s.EndedAt, d.Now), string(s.Status), s.Step)
	generations := kinds[s.Kind].generations
	if generations == nil {
		return []bar{whole}
	}
	whole.Class += " faded"
	all := []bar{whole}
	for _, g := range generations(s.Outputs) {
		from, to := g.StartedAt.Sub(d.Run.StartedAt).Seconds(), g.EndedAt.Sub(d.Run.StartedAt).Seconds()
		b := since(from, to, "accent", generationTitle(g))
		if g.End != spec.EndFinished {
			b.Cap, b.CapX = endClass(g.End), b.X+b.Width-2
		}
		all = append(all, b)
	}
	return all
}

func generationTitle(g spec.Generation) string {
	title := "generation " + human.Count(int64(g.Index)) + ": " + EndWord(g.End)
	if g.Reason != "" {
		title += ", " + g.Reason
	}
	return title
}
