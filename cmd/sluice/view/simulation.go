package view

import (
	"embed"
	"fmt"
	"html/template"
	"io"
	"strings"
	"time"

	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/human"
	"github.com/sluiceml/sluice/internal/layered"
	"github.com/sluiceml/sluice/training/policy"
)

//go:embed simulation.svg
var simulationSource embed.FS

var simulationTemplate = template.Must(template.New("simulation.svg").Funcs(template.FuncMap{"f": layered.Coordinate}).ParseFS(simulationSource, "simulation.svg"))

// The measures of a simulation's drawing, in SVG units: where the time from the beginning to the deadline is drawn, and below the header
// how much room a window has, with the height of what shows the work.
const (
	timeLeft, timeWidth = 84, 820
	windowHeight        = 150
	workHeight          = 60
	headerHeight        = 68 // as in the template
)

// maxDrawn is how many windows are drawn: nobody reads a picture of more.
const maxDrawn = 12

type simulation struct {
	Title, Facts  string
	Width, Height float64
	// Left and Right are where the time begins and ends, Span apart, and Floor is where no work is done.
	Left, Right, Span, Floor float64
	Windows                  []simulatedWindow
	Ticks                    []simulatedTick
}

type simulatedTick struct {
	X    float64
	Text string
}

type simulatedWindow struct {
	Y    float64
	Name string
	// Spot is when there was some, and Ran what the policy ran.
	Spot, Ran []simulatedBar
	// Work are the points of the line of what was done, and End is where it ends.
	Work string
	End  float64
	Done string
}

type simulatedBar struct {
	X, Width     float64
	Class, Title string
}

// Simulation draws what the policy did in the first windows of the traces: when there was spot, what ran and how the work got on. The
// picture stands by itself, and follows the reader's light or dark setting.
func Simulation(w io.Writer, job policy.Job, traces []policy.Trace) error {
	s := simulation{
		Title: fmt.Sprintf("%s of work with a deadline of %s", human.Duration(job.Work), human.Duration(job.Within)),
		Width: timeLeft + timeWidth + 40, Left: timeLeft, Right: timeLeft + timeWidth, Span: timeWidth, Floor: workHeight,
	}
	all := 0
	for _, t := range traces {
		for i, window := range t.Windows {
			if all++; all > maxDrawn {
				continue
			}
			one := simulate(job, window, t.Gap())
			one.Y = float64(len(s.Windows) * windowHeight)
			place := strings.Join(strings.Fields(fmt.Sprintf("%s %s window %d", t.Zone, t.Instance, i+1)), " ")
			one.Name = place + ": " + one.Name
			s.Windows = append(s.Windows, one)
		}
	}
	s.Facts = fmt.Sprintf("A changeover takes %s; an hour costs $%.2f on spot and $%.2f on-demand.",
		human.Duration(job.Changeover), job.Prices.Spot, job.Prices.OnDemand)
	if all > maxDrawn {
		s.Facts += fmt.Sprintf(" The first %d of %s.", maxDrawn, human.Plural(int64(all), "window"))
	}
	s.Height = float64(len(s.Windows)*windowHeight) + headerHeight
	step := tickStep(job.Within)
	for at := step; at <= job.Within; at += step {
		s.Ticks = append(s.Ticks, simulatedTick{atTime(job, at), human.Duration(at)})
	}
	return simulationTemplate.Execute(w, s)
}

// tickStep is how far apart the marks of the time are.
func tickStep(within time.Duration) time.Duration {
	const day = 24 * time.Hour
	for _, step := range []time.Duration{time.Minute, 5 * time.Minute, 15 * time.Minute, time.Hour, 2 * time.Hour, 6 * time.Hour, 12 * time.Hour, day, 2 * day, 7 * day} {
		if within/step <= 10 {
			return step
		}
	}
	return 30 * day
}

// atTime is where a time is drawn. What is later than the deadline is drawn at it.
func atTime(job policy.Job, at time.Duration) float64 {
	return timeLeft + timeWidth*min(1, at.Seconds()/job.Within.Seconds())
}

func newBar(job policy.Job, from, to time.Duration, class, title string) simulatedBar {
	x := atTime(job, from)
	return simulatedBar{X: x, Width: atTime(job, to) - x, Class: class, Title: fmt.Sprintf("%s, from %s to %s", title, human.Duration(from), human.Duration(to))}
}

// simulate draws one window.
func simulate(job policy.Job, w policy.Window, gap time.Duration) simulatedWindow {
	ran := policy.Stretches(policy.Decide, job, w, gap)
	out := policy.Replay(policy.Decide, job, w, gap)
	end := ran[len(ran)-1].To
	one := simulatedWindow{
		Name: fmt.Sprintf("$%.2f, the least is $%.2f, on-demand $%.2f", out.CostUSD, policy.Bound(job, w, gap), policy.Replay(policy.OnDemand, job, w, gap).CostUSD),
		Spot: spotBars(job, w, gap), End: atTime(job, end), Done: "done after " + human.Duration(end),
	}
	line := []string{point(job, 0, 0)}
	before := time.Duration(0)
	for _, s := range ran {
		switch s.Capacity {
		case spec.CapacitySpot:
			one.Ran = append(one.Ran, newBar(job, s.From, s.To, "spot", "on spot"))
		case spec.CapacityOnDemand:
			one.Ran = append(one.Ran, newBar(job, s.From, s.To, "demand", "on on-demand"))
		}
		if s.Capacity != "" && s.Trains > s.From {
			one.Ran = append(one.Ran, newBar(job, s.From, s.Trains, "starts", "nodes start"))
		}
		line = append(line, point(job, s.Trains, before), point(job, s.To, s.Done))
		before = s.Done
	}
	one.Work = strings.Join(line, " ")
	return one
}

// spotBars are when there was spot, as far as the deadline.
func spotBars(job policy.Job, w policy.Window, gap time.Duration) []simulatedBar {
	var bars []simulatedBar
	for i := 0; i < len(w.Available); {
		from := i
		for i++; i < len(w.Available) && w.Available[i] == w.Available[from]; i++ {
		}
		if start := time.Duration(from) * gap; w.Available[from] == '1' && start < job.Within {
			bars = append(bars, newBar(job, start, min(time.Duration(i)*gap, job.Within), "there", "spot available"))
		}
	}
	return bars
}

// point is one of the line of the work.
func point(job policy.Job, at, done time.Duration) string {
	return layered.Coordinate(atTime(job, at)) + "," + layered.Coordinate(workHeight*(1-done.Seconds()/job.Work.Seconds()))
}
