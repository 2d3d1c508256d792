package profile

import (
	"errors"
	"maps"
	"math"
	"slices"
)

// Histogram counts numbers in buckets whose width is a share of the number: a bucket is the numbers with the same sign, exponent and
// leading bits of the mantissa. Adding and merging are sums of whole numbers, so a histogram depends on the numbers alone, not on
// their order or on how they were divided. It is exact for whole numbers below 512 and within 0.4% else; numbers that spread
// over more than maxBuckets of these have wider ones.
//
// Halving the buckets when there are too many is what UDDSketch does (Epicoco et al., 2020); taking a bucket's number from the bits
// is HdrHistogram's way. It keeps the order independence: how often it is done follows from the set of all numbers, since no part of
// them needs more buckets than the whole.
type Histogram struct {
	shift   uint
	buckets map[uint64]int64
}

const (
	// finest is how many bits of a number its bucket does not tell: all but the sign, 11 bits of exponent and 8 of mantissa.
	finest = 64 - 1 - 11 - 8
	// maxBuckets bounds the memory of a histogram.
	maxBuckets = 1024
)

// ordered returns bits that sort as numbers do.
func ordered(x float64) uint64 {
	bits := math.Float64bits(x + 0) // + 0 makes -0 the 0 it equals
	if bits>>63 == 1 {
		return ^bits
	}
	return bits | 1<<63
}

// value is the number of a bucket: the one nearest to 0.
func (h *Histogram) value(key uint64) float64 {
	bits := key << h.shift
	if bits>>63 == 0 {
		return math.Float64frombits(^(bits | (1<<h.shift - 1)))
	}
	return math.Float64frombits(bits &^ (1 << 63))
}

// Add counts a number n times.
func (h *Histogram) Add(x float64, n int64) {
	if h.buckets == nil {
		h.buckets, h.shift = map[uint64]int64{}, finest
	}
	h.buckets[ordered(x)>>h.shift] += n
	h.bound()
}

// Merge adds the counts of other.
func (h *Histogram) Merge(other *Histogram) {
	if len(other.buckets) == 0 {
		return
	}
	if h.buckets == nil {
		h.buckets, h.shift = map[uint64]int64{}, finest
	}
	h.widen(max(h.shift, other.shift))
	for key, n := range other.buckets {
		h.buckets[key>>(h.shift-other.shift)] += n
	}
	h.bound()
}

func (h *Histogram) bound() {
	for len(h.buckets) > maxBuckets {
		h.widen(h.shift + 1)
	}
}

// widen joins buckets until shift bits are left out.
func (h *Histogram) widen(shift uint) {
	if shift == h.shift {
		return
	}
	wide := make(map[uint64]int64, len(h.buckets))
	for key, n := range h.buckets {
		wide[key>>(shift-h.shift)] += n
	}
	h.buckets, h.shift = wide, shift
}

// Count is how many numbers were added.
func (h *Histogram) Count() (n int64) {
	for _, c := range h.buckets {
		n += c
	}
	return n
}

// Quantiles returns, for each q, the number that a share q of all is not above: of n sorted numbers the one at place ceil(q*n). The qs
// rise. Without numbers there are none.
func (h *Histogram) Quantiles(qs ...float64) []float64 {
	total, below := h.Count(), int64(0)
	var found []float64
	for _, key := range slices.Sorted(maps.Keys(h.buckets)) {
		below += h.buckets[key]
		for len(found) < len(qs) && float64(below) >= qs[len(found)]*float64(total) {
			found = append(found, h.value(key))
		}
	}
	return found
}

// histogramJSON is a histogram's form in JSON: the buckets in order, each key as the distance from the one before.
type histogramJSON struct {
	Shift uint     `json:"shift"`
	Steps []uint64 `json:"steps"`
	Count []int64  `json:"count"`
}

var errHistogram = errors.New("not a histogram of a profile")

func (h *Histogram) encode() *histogramJSON {
	if len(h.buckets) == 0 {
		return nil
	}
	out := &histogramJSON{Shift: h.shift}
	last := uint64(0)
	for _, key := range slices.Sorted(maps.Keys(h.buckets)) {
		out.Steps = append(out.Steps, key-last)
		out.Count = append(out.Count, h.buckets[key])
		last = key
	}
	return out
}

func (h *Histogram) decode(in *histogramJSON) error {
	*h = Histogram{}
	if in == nil {
		return nil
	}
	if in.Shift < finest || in.Shift > 63 || len(in.Steps) != len(in.Count) || len(in.Steps) > maxBuckets {
		return errHistogram
	}
	h.shift, h.buckets = in.Shift, make(map[uint64]int64, len(in.Steps))
	key := uint64(0)
	for i, step := range in.Steps {
		key += step
		if in.Count[i] <= 0 || key > math.MaxUint64>>in.Shift {
			return errHistogram
		}
		h.buckets[key] += in.Count[i]
	}
	return nil
}
