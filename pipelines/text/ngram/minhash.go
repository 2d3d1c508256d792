package ngram

import (
	"math/rand/v2"
	"slices"
)

// Hasher makes shingles and bands of texts, to find those that are nearly the same: of which a large share of the runs is. It may be used from
// several goroutines.
//
// A text is the set of its shingles, the hashes of its runs, and two texts are as alike as their sets are: by their Jaccard
// similarity, what they share by what they have together. To compare each text with each is too much; so a text has bands, hashes of
// some minima over the set, of which two texts share one with a probability that rises steeply with how alike they are, and only such
// texts are compared. The comparison is exact. What is found is therefore alike, and what is missed are pairs without a common band:
// (1-s^rows)^bands of those that are alike by s.
//
// A text of no words is one run, too, of all that it has.
type Hasher struct {
	ngram, bands, rows int
	// a and b are the functions whose minima are taken, a*x+b modulo 2^64: x is mixed well, and of the sum the upper bits decide.
	a, b []uint64
}

// NewHasher returns the hasher of shingles of ngram words, with bands of rows minima each. All are at least 1.
func NewHasher(ngram, bands, rows int) *Hasher {
	h := &Hasher{ngram: ngram, bands: bands, rows: rows, a: make([]uint64, bands*rows), b: make([]uint64, bands*rows)}
	r := rand.New(rand.NewPCG(uint64(rows), 1)) // always the same functions: bands of one run are compared with those of another's
	for i := range h.a {
		h.a[i], h.b[i] = r.Uint64()|1, r.Uint64()
	}
	return h
}

// Shingles appends the shingles of texts, which do not run from one text into the next, in their order and as often as they are there.
func (h *Hasher) Shingles(to []uint64, texts ...string) []uint64 {
	for i, text := range texts {
		before := len(to)
		for gram := range grams(text, h.ngram, uint64(i)) { // the same words in another field are another shingle
			to = append(to, gram)
		}
		if len(to) == before {
			to = append(to, whole(text, uint64(i)))
		}
	}
	return to
}

// whole is the hash of a text that has no words.
func whole(text string, seed uint64) uint64 {
	sum := mix(seed + 1)
	for i := range len(text) {
		sum = mix(sum ^ uint64(text[i]))
	}
	return sum
}

// Bands appends a hash for each band of a set of shingles; order and repetition do not matter.
func (h *Hasher) Bands(to []uint32, shingles []uint64) []uint32 {
	for band := range h.bands {
		sum := uint64(band)
		for i := band * h.rows; i < (band+1)*h.rows; i++ {
			sum = mix(sum ^ minimum(h.a[i], h.b[i], shingles))
		}
		to = append(to, uint32(sum))
	}
	return to
}

// minimum is the least a*x+b of all x. Two minima at once keep the processor busier than one.
func minimum(a, b uint64, xs []uint64) uint64 {
	even, odd := ^uint64(0), ^uint64(0)
	for ; len(xs) >= 2; xs = xs[2:] {
		even, odd = min(even, a*xs[0]+b), min(odd, a*xs[1]+b)
	}
	if len(xs) == 1 {
		even = min(even, a*xs[0]+b)
	}
	return min(even, odd)
}

// Set makes a set of shingles, in place: sorted, each once.
func Set(shingles []uint64) []uint64 {
	slices.Sort(shingles)
	return slices.Compact(shingles)
}

// Jaccard is how alike two sets are: 0 when they share nothing, 1 when they are the same.
func Jaccard(a, b []uint64) float64 {
	shared, i, j := 0, 0, 0
	for i < len(a) && j < len(b) {
		x, y := a[i], b[j]
		if x == y {
			shared++
		}
		if x <= y {
			i++
		}
		if y <= x {
			j++
		}
	}
	return float64(shared) / float64(max(len(a)+len(b)-shared, 1))
}
