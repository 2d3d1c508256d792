package stats

import (
	"maps"
	"math"
	"slices"
	"time"
)

// growth is the ratio of a bucket's edges: a quantile read from the histogram is within 1% of the exact one.
const growth = 1.02

// maxLatency is counted as the highest latency there is, so that the number of buckets is bounded (about 1,100).
const maxLatency = time.Hour

// Histogram counts latencies in buckets whose edges grow by 2%: bucket i holds those above 1.02^(i-1) µs and up to 1.02^i µs. It is
// sparse, and JSON holds only the buckets in use. The zero value is empty and ready. It is not safe for concurrent use.
type Histogram struct {
	Buckets map[int]int64 `json:"buckets,omitempty"`
}

// IsZero reports whether nothing was added.
func (h Histogram) IsZero() bool { return len(h.Buckets) == 0 }

// Add counts one latency.
func (h *Histogram) Add(d time.Duration) {
	if h.Buckets == nil {
		h.Buckets = map[int]int64{}
	}
	h.Buckets[bucketOf(d)]++
}

// Count returns how many latencies were added.
func (h Histogram) Count() int64 {
	var n int64
	for _, c := range h.Buckets {
		n += c
	}
	return n
}

// Plus returns the histogram of both.
func (h Histogram) Plus(other Histogram) Histogram {
	sum := make(map[int]int64, len(h.Buckets)+len(other.Buckets))
	maps.Copy(sum, h.Buckets)
	for i, c := range other.Buckets {
		sum[i] += c
	}
	return Histogram{Buckets: sum}
}

// Quantile returns the latency that a share q of all is at or below, 0 when there is none.
func (h Histogram) Quantile(q float64) time.Duration {
	rank := int64(math.Ceil(q * float64(h.Count())))
	var seen int64
	for _, i := range h.indexes() {
		seen += h.Buckets[i]
		if seen >= rank {
			return middle(i)
		}
	}
	return 0
}

// Cumulative returns, for each of the ascending bounds, how many latencies are in buckets that end at or below it.
func (h Histogram) Cumulative(bounds []time.Duration) []int64 {
	out := make([]int64, len(bounds))
	for i, c := range h.Buckets {
		for b := len(bounds) - 1; b >= 0 && upperEdge(i) <= bounds[b]; b-- {
			out[b] += c
		}
	}
	return out
}

func (h Histogram) indexes() []int { return slices.Sorted(maps.Keys(h.Buckets)) }

func bucketOf(d time.Duration) int {
	us := float64(min(d, maxLatency)) / float64(time.Microsecond)
	if us <= 1 {
		return 0
	}
	return int(math.Ceil(math.Log(us) / math.Log(growth)))
}

func upperEdge(i int) time.Duration {
	return time.Duration(math.Pow(growth, float64(i)) * float64(time.Microsecond))
}

func lowerEdge(i int) time.Duration {
	if i == 0 {
		return 0
	}
	return upperEdge(i - 1)
}

// Sum returns the sum of all latencies, each taken for its bucket's middle.
func (h Histogram) Sum() time.Duration {
	var sum float64
	for i, c := range h.Buckets {
		sum += float64(c) * float64(middle(i))
	}
	return time.Duration(sum)
}

func middle(i int) time.Duration { return time.Duration(float64(upperEdge(i)) / math.Sqrt(growth)) }
