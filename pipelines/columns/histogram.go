package columns

import (
	"errors"
	"maps"
	"math"
	"slices"
)

// Histogram counts numbers in buckets whose width is proportional to the number: a bucket holds the numbers with the same sign, exponent
// and leading bits of the mantissa. Adding and merging only add integers, so a histogram depends only on the numbers, not on their order or
// how they were divided. It is exact for integers below 512 and within 0.4% otherwise; if the numbers need more than maxBuckets buckets,
// the buckets become wider.
//
// Doubling the bucket width when there are too many buckets is the method of UDDSketch (Epicoco et al., 2020); computing a bucket from the
// bits of a number is that of HdrHistogram. The result does not depend on the order: how often the width is doubled follows from the set of
// all numbers, since no part of them needs more buckets than the whole.
type Histogram struct {
	shift   uint
	buckets map[uint64]int64
}

const (
	// finest is how many low bits of a number its bucket ignores: all but the sign, 11 bits of exponent and 8 of mantissa.
	finest = 64 - 1 - 11 - 8
	// maxBuckets bounds the memory of a histogram.
	maxBuckets = 1024
)

// ordered returns bits that sort like the numbers.
func ordered(x float64) uint64 {
	bits := math.Float64bits(x + 0) // + 0 turns -0 into 0
	if bits>>63 == 1 {
		return ^bits
	}
	return bits | 1<<63
}

// value returns the number that represents a bucket: the one nearest to 0.
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

// widen merges buckets until shift bits are ignored.
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

// Count returns how many numbers were added.
func (h *Histogram) Count() (n int64) {
	for _, c := range h.buckets {
		n += c
	}
	return n
}

// Quantiles returns, for each q, the smallest number such that a share q of all numbers is not above it: of n sorted numbers the one at
// position ceil(q*n). The qs must be ascending. Without numbers, the result is empty.
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

// histogramJSON is the JSON form of a histogram: the buckets in order, with the difference of each key from the one before.
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
