package policy

import (
	"math"
	"math/bits"
	"time"
)

// maxTicks bounds into how many ticks the work is divided, and so what Bound takes of time and memory.
const maxTicks = 1 << 14

// Bound is the least that a job costs whoever knows the whole window, decides once in each interval as in Replay, pays for changeovers, and
// keeps the deadline; +Inf where nothing keeps it. No work is lost to spot that goes: whoever sees it coming saves a checkpoint. It is
// exact where the gap, the changeover and the work are multiples of a tick that is not too small; else the changeover and the work are
// taken for up to a tick shorter than they are, so that it stays a bound.
func Bound(job Job, w Window, gap time.Duration) float64 {
	b := newBound(job, gap)
	if b.work == 0 {
		return 0
	}
	intervals := int((b.due + b.gap - 1) / b.gap)
	layers := make([]layer, b.boots+2) // of an interval and those after it, as far as a start reaches
	for i := range layers {
		layers[i] = newLayer(b.work)
	}
	up := 0 // for how many intervals from i on there is spot
	for i := intervals - 1; i >= 0; i-- {
		if i < len(w.Available) && w.Available[i] == '1' {
			up++
		} else {
			up = 0
		}
		b.step(i, up, layers)
	}
	return layers[0].none[b.work]
}

// bound is a job whose times are counted in ticks.
type bound struct {
	gap, work, due int
	// boots is how many whole intervals nodes start for, and rest how much of the next.
	boots, rest    int
	spot, onDemand float64 // dollars for a tick
}

// newBound divides the gap into ticks of which changeover and work are multiples, where they are not too many.
func newBound(job Job, gap time.Duration) bound {
	ticks := min(gap/gcd(gcd(gap, job.Changeover), job.Work), max(1, muldiv(maxTicks, gap, max(job.Work, gap))))
	count := func(d time.Duration) int { return int(muldiv(d, ticks, gap)) }
	b := bound{gap: int(ticks), work: count(job.Work), due: count(job.Within)}
	b.boots, b.rest = count(job.Changeover)/b.gap, count(job.Changeover)%b.gap
	hours := gap.Hours() / float64(ticks)
	b.spot, b.onDemand = job.Prices.Spot*hours, job.Prices.OnDemand*hours
	return b
}

// muldiv is a*b/c, rounded down, where a*b need not fit into 64 bits.
func muldiv(a, b, c time.Duration) time.Duration {
	hi, lo := bits.Mul64(uint64(a), uint64(b))
	n, _ := bits.Div64(hi, lo, uint64(c))
	return time.Duration(n)
}

func gcd(a, b time.Duration) time.Duration {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

// layer is what it costs at least to finish from the start of an interval on, by the work that is left, while nothing runs, and while nodes
// of a capacity run that have trained already.
type layer struct{ none, spot, onDemand []float64 }

func newLayer(work int) layer {
	l := layer{make([]float64, work+1), make([]float64, work+1), make([]float64, work+1)}
	l.clear()
	return l
}

// clear makes it a layer from which nothing finishes.
func (l layer) clear() {
	for left := range l.none {
		l.none[left], l.spot[left], l.onDemand[left] = math.Inf(1), math.Inf(1), math.Inf(1)
	}
}

// step fills the layer of interval i, from which on there is spot for so many intervals. To give up nodes that start is never worth more
// than to wait for what comes then, so a start leads to the end of the interval in which it is over.
func (b bound) step(i, up int, layers []layer) {
	at := func(i int) layer { return layers[i%len(layers)] }
	now, next, started := at(i), at(i+1), at(i+b.boots+1)
	now.clear()
	start, trains := float64(b.boots*b.gap+b.rest), b.gap-b.rest
	for left := max(1, b.work-i*b.gap); left <= min(b.work, b.due-i*b.gap); left++ {
		none := min(next.none[left], start*b.onDemand+b.train(i+b.boots, left, trains, b.onDemand, started.onDemand))
		if up > b.boots {
			none = min(none, start*b.spot+b.train(i+b.boots, left, trains, b.spot, started.spot))
		}
		now.none[left], now.spot[left] = none, none
		if up > 0 {
			now.spot[left] = min(none, b.train(i, left, b.gap, b.spot, next.spot))
		}
		now.onDemand[left] = min(none, b.train(i, left, b.gap, b.onDemand, next.onDemand))
	}
}

// train is what it costs to train for the last so many ticks of an interval, and to go on from then.
func (b bound) train(interval, left, ticks int, price float64, then []float64) float64 {
	switch {
	case left > ticks:
		return float64(ticks)*price + then[left-ticks]
	case (interval+1)*b.gap-ticks+left > b.due:
		return math.Inf(1)
	}
	return float64(left) * price
}
