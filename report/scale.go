package report

import (
	"math"
	"strconv"
	"strings"

	"github.com/sluiceml/sluice/internal/human"
	"github.com/sluiceml/sluice/internal/layered"
)

// scale maps values to a stretch of the page, linearly or by their logarithm.
type scale struct {
	low, high float64 // values
	from, to  float64 // coordinates
	log       bool
}

// at is the coordinate of a value; what lies outside is put on the border.
func (s scale) at(v float64) float64 {
	low, high := s.low, s.high
	if s.log {
		v, low, high = math.Log10(max(v, s.low)), math.Log10(low), math.Log10(high)
	}
	if high <= low || math.IsNaN(v) {
		return s.from
	}
	share := min(max((v-low)/(high-low), 0), 1)
	return s.from + share*(s.to-s.from)
}

// tick is a labelled place on an axis.
type tick struct {
	At    float64
	Label string
}

// ticks are at most about n round values in the scale's range.
func (s scale) ticks(n int) []tick {
	if s.log {
		return s.decades(n)
	}
	step := roundStep((s.high - s.low) / float64(max(n, 1)))
	if step <= 0 || math.IsNaN(step) || math.IsInf(step, 0) {
		return nil
	}
	var all []tick
	for i := math.Ceil(s.low/step - 1e-9); i*step <= s.high*(1+1e-9); i++ {
		v := i * step
		all = append(all, tick{s.at(v), human.Number(math.Round(v*1e9) / 1e9)})
	}
	return all
}

// decades are powers of ten.
func (s scale) decades(n int) []tick {
	first, last := int(math.Ceil(math.Log10(s.low)-1e-9)), int(math.Floor(math.Log10(s.high)+1e-9))
	every := max(1, (last-first+n)/max(n, 1))
	var all []tick
	for e := first; e <= last; e += every {
		label := human.Number(math.Pow10(e))
		if e < -3 || e > 5 {
			label = "1e" + strconv.Itoa(e)
		}
		all = append(all, tick{s.at(math.Pow10(e)), label})
	}
	return all
}

// roundStep is the smallest of 1, 2, 5 times a power of ten that is not below raw.
func roundStep(raw float64) float64 {
	if raw <= 0 {
		return 0
	}
	power := math.Pow(10, math.Floor(math.Log10(raw)))
	for _, m := range []float64{1, 2, 5} {
		if m*power >= raw*(1-1e-9) {
			return m * power
		}
	}
	return 10 * power
}

// xy is a place on the page.
type xy struct{ X, Y float64 }

// line is the data of an SVG path through points.
func line(points []xy) string {
	var b strings.Builder
	for i, p := range points {
		b.WriteByte("ML"[min(i, 1)])
		b.WriteString(layered.Coordinate(p.X))
		b.WriteByte(' ')
		b.WriteString(layered.Coordinate(p.Y))
	}
	return b.String()
}
