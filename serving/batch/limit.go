package batch

import (
	"slices"
	"time"

	"github.com/sluiceml/sluice/serving/stats"
)

const (
	// window is how long inferences are timed before the limit is adjusted. They are timed anew afterwards: those under another limit say
	// nothing of this one.
	window = 10 * time.Second
	// quantile of the times that the target is for.
	quantile = 0.99
	// slack is the share of the target under which the limit is raised. From 4 rows on no step is longer than that, so that a model whose
	// time is linear in its rows is not over the target after it.
	slack = 0.8
)

// limit is how many rows an inference of several requests may have. It goes down a step when the inferences of a window took longer than
// the target, and up when they were well under it.
//
// The time in which requests wait does not count. It grows when the model is overloaded, and smaller batches would then make it longer.
type limit struct {
	rows   int
	target time.Duration
	steps  []int // ascending; the last is the largest batch
	began  time.Time
	times  stats.Histogram // of inferences, one for each of their requests
}

func newLimit(largest int, target time.Duration) limit {
	return limit{rows: largest, target: target, steps: stepsTo(largest)}
}

// stepsTo lists four sizes in each doubling, as far as there are so many, and the largest: 1, 2, 3, ... 8, 10, 12, 14, 16, 20, ...
func stepsTo(largest int) []int {
	var steps []int
	for size, step := 1, 1; size < largest; size += step {
		steps = append(steps, size)
		if size >= 8*step {
			step *= 2
		}
	}
	return append(steps, largest)
}

// add counts the time of an inference of so many requests.
func (l *limit) add(requests int, took time.Duration) {
	if l.target == 0 {
		return
	}
	for range requests {
		l.times.Add(took)
	}
}

// adjust moves the limit by at most a step at the end of a window, and returns that window's p99, and whether the limit was changed.
func (l *limit) adjust(now time.Time) (p99 time.Duration, changed bool) {
	if l.target == 0 {
		return 0, false
	}
	if l.began.IsZero() {
		l.began = now
	}
	if now.Sub(l.began) < window {
		return 0, false
	}
	p99 = l.times.Quantile(quantile)
	l.began, l.times = now, stats.Histogram{}
	at := slices.Index(l.steps, l.rows)
	switch {
	case p99 > l.target:
		at = max(at-1, 0)
	case p99 < time.Duration(slack*float64(l.target)):
		at = min(at+1, len(l.steps)-1)
	}
	changed = l.steps[at] != l.rows
	l.rows = l.steps[at]
	return p99, changed
}
