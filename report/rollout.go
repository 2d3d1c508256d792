package report

import (
	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/human"
)

// rolloutStory is how a candidate took over a target's traffic, or did not.
type rolloutStory struct {
	spec.RolloutOutput
	Promoted bool
	Stages   []stage
	Chart    *rolloutChart
}

// stage is one stage with its last look.
type stage struct {
	spec.StageResult
	Label string
	Class string
	Last  *spec.Look
	// Answers of the candidate that were judged: its own, or those it gave in the shadow.
	Answers int64
}

// rolloutChart shows the candidate's share of traffic over time and, under it, the evidence against it.
type rolloutChart struct {
	Width, Height, Left, Right float64
	// The upper panel: share of traffic.
	ShareTop, ShareBottom float64
	Share                 string
	// The lower panel: e-values on a logarithmic scale.
	Top, Bottom    float64
	XTicks, YTicks []tick
	Evidence       []string // one path per stage: each begins anew
	// Limit is where the candidate is taken back; nil where the record does not tell.
	Limit *tick
	Looks []lookMark
	Bands []stageBand
}

type lookMark struct {
	xy
	Class, Title string
}

type stageBand struct {
	X, Width            float64
	Label, Title, Class string
}

func (s *section) tellRollout(Data) bool {
	s.Rollout = newRolloutStory(decode[spec.RolloutOutput](s.Outputs))
	return true
}

func newRolloutStory(out spec.RolloutOutput) *rolloutStory {
	r := &rolloutStory{RolloutOutput: out, Promoted: out.Decision == "promoted"}
	for _, s := range out.Stages {
		st := stage{StageResult: s, Label: StageText(s.Shadow, s.Weight), Class: decisionClass(s.Decision)}
		if n := len(s.Looks); n > 0 {
			st.Last = &s.Looks[n-1]
			st.Answers = answers(s.Looks[n-1])
		}
		r.Stages = append(r.Stages, st)
	}
	r.Chart = newRolloutChart(out)
	return r
}

func answers(l spec.Look) int64 { return max(l.Candidate.Requests, l.Delta.Samples) }

// StageText is the share of a stage of a rollout, of which one is 0.
func StageText(shadow, weight spec.Share) string {
	if shadow > 0 {
		return "shadow " + shadow.String()
	}
	return weight.String()
}

func decisionClass(decision string) string {
	switch decision {
	case "pass":
		return "succeeded"
	case "abort":
		return "failed"
	}
	return "pending"
}

func newRolloutChart(out spec.RolloutOutput) *rolloutChart {
	c := &rolloutChart{Width: chartWidth, Height: 300, Left: chartLeft, Right: chartWidth - 10, ShareTop: 30, ShareBottom: 86, Top: 110, Bottom: 270}
	total, lowest, highest, limit, looks := 0.0, 0.1, 10.0, 0.0, 0
	for _, s := range out.Stages {
		total += s.Seconds
		for _, l := range s.Looks {
			if l.EValue > 0 {
				lowest, highest = min(lowest, l.EValue), max(highest, l.EValue)
			}
			if l.Alpha > 0 {
				limit = 1 / l.Alpha // one for the whole rollout
			}
			looks++
		}
	}
	if total <= 0 || looks < 2 { // one look is no story
		return nil
	}
	x := scale{high: total, from: c.Left, to: c.Right}
	e := scale{low: max(lowest, 1e-12) / 2, high: max(highest, limit) * 2, from: c.Bottom, to: c.Top, log: true}
	c.XTicks, c.YTicks = x.ticks(10), e.ticks(5)
	if limit > 0 {
		c.Limit = &tick{e.at(limit), "taken back at " + human.Number(limit)}
	}
	traffic := scale{high: 1, from: c.ShareBottom, to: c.ShareTop}
	area := []xy{{c.Left, c.ShareBottom}}
	began := 0.0
	for _, s := range out.Stages {
		from, to := x.at(began), x.at(began+s.Seconds)
		c.Bands = append(c.Bands, newBand(s, from, to))
		level := traffic.at(float64(s.Weight))
		area = append(area, xy{from, level}, xy{to, level})
		var path []xy
		for _, l := range s.Looks {
			at := xy{x.at(began + l.At), e.at(l.EValue)}
			path = append(path, at)
			c.Looks = append(c.Looks, lookMark{at, decisionClass(l.Decision), lookTitle(l)})
		}
		c.Evidence = append(c.Evidence, line(path))
		began += s.Seconds
	}
	c.Share = line(append(area, xy{x.at(total), c.ShareBottom})) + "Z"
	return c
}

// newBand labels a stage where there is room; its title and the table under the chart name it too.
func newBand(s spec.StageResult, from, to float64) stageBand {
	b := stageBand{X: from, Width: to - from, Title: StageText(s.Shadow, s.Weight), Class: decisionClass(s.Decision)}
	if b.Width > letterWidth*float64(len(b.Title)) {
		b.Label = b.Title
	}
	return b
}

func lookTitle(l spec.Look) string {
	title := "e " + human.Number(l.EValue) + " after " + human.Plural(answers(l), "answer") + ": " + l.Decision
	if l.Reason != "" {
		title += ", " + l.Reason
	}
	return title
}
