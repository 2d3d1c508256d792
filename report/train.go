package report

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/human"
	"github.com/sluiceml/sluice/store/record"
)

// trainStory is how a training went, or a step of another kind on nodes of a pool.
type trainStory struct {
	Kind spec.Kind
	spec.TrainOutput
	Tiles []field
	Curve *lossCurve
	Spent []spentOn
}

// spentOn is what a part of the node time was spent on.
type spentOn struct {
	Name  string
	Class string
	Width float64 // of its bar, in percent of the longest
	Part  float64
	spec.Spent
}

// The measures of charts.
const (
	chartHeight = 240
	chartLeft   = 52
	chartTop    = 38
	chartBottom = chartHeight - 30
)

// lossCurve is the loss over steps, one line per generation, with the interruptions.
type lossCurve struct {
	Width, Height, Left, Right, Top, Bottom float64
	XTicks, YTicks                          []tick
	Raw                                     []string // one path per generation
	Smooth                                  string
	Averaged                                bool // else Smooth is what is in Raw
	Breaks                                  []interruption
}

// interruption is the end of a generation that was not the last.
type interruption struct {
	X     float64
	Class string
	Title string
	// Label is nil where there is no room for one: the table under the chart has it all.
	Label *label
	// LostX and LostWidth are the band of steps that were lost.
	LostX, LostWidth float64
}

// label is a text beside a line: it begins at X, or ends there.
type label struct {
	xy
	Text  string
	AtEnd bool
}

// LossCurve is the digest of the loss curve that a step drew; empty when it drew none. The error says that its outputs cannot be read.
func LossCurve(s record.StepRecord) (digest string, err error) {
	if curve := kinds[s.Kind].curve; curve != nil && len(s.Outputs) > 0 {
		return curve(s.Outputs)
	}
	return "", nil
}

func curveOf(outputs json.RawMessage) (digest string, err error) {
	var out spec.TrainOutput
	err = json.Unmarshal(outputs, &out)
	return out.Curve, err
}

func (s *section) tellTrain(d Data) bool {
	s.Train = newTrainStory(s.Kind, decode[spec.TrainOutput](s.Outputs), d.Curves[s.Step])
	return true
}

func newTrainStory(kind spec.Kind, out spec.TrainOutput, points []Point) *trainStory {
	if len(out.Generations) == 0 {
		return &trainStory{Kind: kind, TrainOutput: out, Tiles: fields(out.Metrics), Spent: newSpent(out.Outcomes)}
	}
	interruptions, failures, damaged := 0, 0, 0
	for _, g := range out.Generations {
		if g.End == spec.EndNotice || g.End == spec.EndNodeLost {
			interruptions++
		}
		if g.End == spec.EndDamaged {
			damaged++
		}
		if isFailure(g) {
			failures++
		}
	}
	tiles := []field{
		{"generations", human.Count(int64(len(out.Generations)))},
		{"interruptions", human.Count(int64(interruptions))},
		{"failed attempts", human.Count(int64(failures))},
	}
	if damaged > 0 {
		tiles = append(tiles, field{"damaged checkpoints", human.Count(int64(damaged))})
	}
	if HasSteps(kind, out.Generations) {
		tiles = append([]field{{"steps", human.Count(out.Steps)}}, tiles...)
		tiles = append(tiles,
			field{"steps lost", atLeast(out.StepsAtLeast, human.Count(out.StepsLost))},
			field{"steps repeated", atLeast(out.StepsAtLeast, human.Count(out.StepsRepeated))})
	}
	tiles = append(tiles, field{"node time", human.Seconds(out.NodeSeconds)})
	if out.CostUnknown {
		tiles = append(tiles, field{"cost", "unknown"})
	} else if out.CostUSD > 0 {
		tiles = append(tiles, field{"cost", "$" + human.Number(out.CostUSD)})
	}
	tiles = append(tiles, gpuTiles(out.Generations)...)
	if i := slices.IndexFunc(points, func(p Point) bool { return !p.Loss.Finite() }); i >= 0 {
		tiles = append(tiles, field{"loss no finite number from step", human.Count(points[i].Step)})
	}
	return &trainStory{Kind: kind, TrainOutput: out, Tiles: append(tiles, fields(out.Metrics)...), Curve: newLossCurve(kind, out, points), Spent: newSpent(out.Outcomes)}
}

// HasSteps reports whether the story's generations have training steps.
func (t *trainStory) HasSteps() bool { return HasSteps(t.Kind, t.Generations) }

// newSpent is what the node time was spent on; none where no node ran.
func newSpent(o spec.Outcomes) []spentOn {
	all := []spentOn{
		{Name: "useful steps", Class: "succeeded", Spent: o.Useful},
		{Name: "lost steps", Class: "failed", Spent: o.Lost},
		{Name: "overhead", Class: "declined", Spent: o.Overhead},
		{Name: "never started", Class: "pending", Spent: o.NeverStarted},
	}
	var most, total float64
	for _, s := range all {
		most, total = max(most, s.NodeSeconds), total+s.NodeSeconds
	}
	if total == 0 {
		return nil
	}
	for i := range all {
		all[i].Width, all[i].Part = 100*all[i].NodeSeconds/most, all[i].NodeSeconds/total
	}
	return all
}

// Cost is what a part cost, for people.
func (s spentOn) Cost() string {
	if s.CostUSD == nil {
		return "unknown"
	}
	return fmt.Sprintf("$%.2f", *s.CostUSD)
}

// HasSpent reports whether the node time is known to have cost something, or it is not known what.
func (t *trainStory) HasSpent() bool {
	return slices.ContainsFunc(t.Spent, func(s spentOn) bool { return s.CostUSD == nil || *s.CostUSD > 0 })
}

// isFailure reports whether a generation ended by a failure, and not with its node or because of the checkpoint that it was given.
func isFailure(g spec.Generation) bool {
	return g.End != spec.EndNodeLost && g.End != spec.EndDamaged && endClass(g.End) == "failed"
}

// HasCost reports whether any generation is known to have cost something.
func (t *trainStory) HasCost() bool {
	return slices.ContainsFunc(t.Generations, func(g spec.Generation) bool { return g.CostUSD > 0 })
}

// atLeast qualifies a count that may be too small.
func atLeast(inexact bool, count string) string {
	if inexact {
		return "at least " + count
	}
	return count
}

func newLossCurve(kind spec.Kind, out spec.TrainOutput, points []Point) *lossCurve {
	points = slices.DeleteFunc(slices.Clone(points), func(p Point) bool { return !p.Loss.Finite() }) // a loss that ran away cannot be drawn
	if len(points) < 2 {
		return nil
	}
	c := &lossCurve{Width: chartWidth, Height: chartHeight, Left: chartLeft, Right: chartWidth - 10, Top: chartTop, Bottom: chartBottom}
	x := scale{low: float64(points[0].Step), high: float64(points[0].Step), from: c.Left, to: c.Right}
	y := scale{low: 0, high: float64(points[0].Loss), from: c.Bottom, to: c.Top}
	for _, p := range points {
		x.low, x.high = min(x.low, float64(p.Step)), max(x.high, float64(p.Step))
		y.low, y.high = min(y.low, float64(p.Loss)), max(y.high, float64(p.Loss))
	}
	c.XTicks, c.YTicks = x.ticks(10), y.ticks(5)
	var stretch, smooth []xy
	for i, p := range points {
		if i > 0 && p.Generation != points[i-1].Generation {
			c.Raw, stretch = append(c.Raw, line(stretch)), nil
		}
		stretch = append(stretch, xy{x.at(float64(p.Step)), y.at(float64(p.Loss))})
		smooth = append(smooth, xy{x.at(float64(p.Step)), y.at(around(points, i))})
	}
	c.Raw, c.Smooth, c.Averaged = append(c.Raw, line(stretch)), line(smooth), len(points) >= pointsPerReach
	var room labelRows
	for i, g := range out.Generations {
		if i < len(out.Generations)-1 {
			c.Breaks = append(c.Breaks, newInterruption(kind, g, x, &room))
		}
	}
	return c
}

// pointsPerReach is how many points a curve has for each that the average takes in before and after a point.
const pointsPerReach = 40

// around is the average of the points near point i, as many before as after it.
func around(points []Point, i int) float64 {
	reach := min(len(points)/pointsPerReach, i, len(points)-1-i)
	sum := 0.0
	for _, p := range points[i-reach : i+reach+1] {
		sum += float64(p.Loss)
	}
	return sum / float64(2*reach+1)
}

func newInterruption(kind spec.Kind, g spec.Generation, x scale, room *labelRows) interruption {
	at := x.at(float64(g.ToStep))
	resumed := x.at(float64(g.ToStep - g.StepsLost))
	text := EndWord(kind, g.End)
	if g.StepsLost > 0 {
		text += ", " + atLeast(g.StepsAtLeast, human.Plural(g.StepsLost, "step")) + " lost"
	}
	return interruption{
		X: at, Class: endClass(g.End), Title: generationTitle(kind, g), Label: room.place(at, text),
		LostX: resumed, LostWidth: at - resumed,
	}
}

// labelRows remembers how far the rows over a chart are taken, from left to right.
type labelRows [labelRowCount]float64

const (
	labelRowCount  = 2
	labelRowHeight = 14
	letterWidth    = 6.6 // of the labels' type, a little generous
)

// place finds room for a label at x, or none.
func (r *labelRows) place(x float64, text string) *label {
	width := letterWidth * float64(len(text))
	from := x
	if x+width > chartWidth {
		from = x - width
	}
	for i := range r {
		if from >= r[i] {
			r[i] = from + width + 8
			y := chartTop - 8 - labelRowHeight*float64(i)
			return &label{xy: xy{x, y}, Text: text, AtEnd: from < x}
		}
	}
	return nil
}

// ends are the ways in which a generation ends: the style of each, and what is said of it, or of what whoEnded names.
var ends = map[spec.GenerationEnd]struct{ class, word string }{
	spec.EndFinished:     {"succeeded", "finished"},
	spec.EndNotice:       {"declined", "spot notice"},
	spec.EndMoved:        {"declined", "moved to spot"},
	spec.EndCanceled:     {"declined", "canceled"},
	spec.EndNodeLost:     {"failed", "node lost"},
	spec.EndCrashed:      {"failed", "crashed"},
	spec.EndHung:         {"failed", "hung"},
	spec.EndUserError:    {"failed", "failed"},
	spec.EndTimeout:      {"failed", "timed out"},
	spec.EndBudget:       {"failed", "budget spent"},
	spec.EndDeadline:     {"failed", "deadline passed"},
	spec.EndIdle:         {"failed", "GPUs idle"},
	spec.EndDamaged:      {"failed", "checkpoint damaged"},
	spec.EndNeverStarted: {"failed", "never started"},
}

func endClass(end spec.GenerationEnd) string { return cmp.Or(ends[end].class, "pending") }

// HowEnded is how a generation of a step of a kind ended, and why, in one line.
func HowEnded(kind spec.Kind, g spec.Generation) string {
	if g.Reason == "" {
		return EndWord(kind, g.End)
	}
	return EndWord(kind, g.End) + ", " + human.Line(g.Reason)
}

// EndWord is how a generation of a step of a kind ended, for people.
func EndWord(kind spec.Kind, end spec.GenerationEnd) string {
	word := cmp.Or(ends[end].word, "not ended")
	if who := whoEnded(kind, end); who != "" {
		return who + " " + word
	}
	return word
}

// Span is the height of the plot.
func (c *lossCurve) Span() float64 { return c.Bottom - c.Top }
