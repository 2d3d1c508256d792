package ngram

import (
	"math/rand/v2"
	"slices"
)

// Hasher computes shingles and bands of texts, to find texts that are nearly the same. It is safe for concurrent use.
//
// A text is represented by the set of its shingles, which are the hashes of its n-grams. The similarity of two texts is the Jaccard
// similarity of their sets: the size of the intersection divided by that of the union. Comparing every text with every other is too
// expensive. So each text has bands, which are hashes of several minima over its set. The probability that two texts share a band rises
// steeply with their similarity, and only texts that share one are compared. The comparison is exact, so all pairs found are similar, and
// the pairs missed are those without a common band: (1-s^rows)^bands of those with similarity s.
//
// A text without words has a single shingle, the hash of the whole text.
type Hasher struct {
	ngram, bands, rows int
	// a and b are the coefficients of the hash functions a*x+b modulo 2^64 whose minima are taken. x is well mixed, and the upper bits of
	// the result determine the order.
	a, b []uint64
}

// NewHasher returns the hasher of shingles of ngram words, with bands of rows minima each. All are at least 1.
func NewHasher(ngram, bands, rows int) *Hasher {
	h := &Hasher{ngram: ngram, bands: bands, rows: rows, a: make([]uint64, bands*rows), b: make([]uint64, bands*rows)}
	r := rand.New(rand.NewPCG(uint64(rows), 1)) // always the same functions, so that bands of different runs can be compared
	for i := range h.a {
		h.a[i], h.b[i] = r.Uint64()|1, r.Uint64()
	}
	return h
}

// Shingles appends the shingles of texts, in order and with repetitions. No shingle spans two texts.
func (h *Hasher) Shingles(to []uint64, texts ...string) []uint64 {
	for i, text := range texts {
		before := len(to)
		for gram := range grams(text, h.ngram, uint64(i)) { // the seed makes the same words in another text a different shingle
			to = append(to, gram)
		}
		if len(to) == before {
			to = append(to, whole(text, uint64(i)))
		}
	}
	return to
}

// whole returns the hash of a text without words.
func whole(text string, seed uint64) uint64 {
	sum := mix(seed + 1)
	for i := range len(text) {
		sum = mix(sum ^ uint64(text[i]))
	}
	return sum
}

// Bands appends a hash for each band of a set of shingles. Order and repetition of shingles do not matter.
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

// minimum returns the smallest a*x+b of all x. Computing two minima in parallel uses the processor better.
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

// Set sorts shingles and removes repetitions, in place.
func Set(shingles []uint64) []uint64 {
	slices.Sort(shingles)
	return slices.Compact(shingles)
}

// Jaccard returns the similarity of two sets: 0 if they are disjoint, 1 if they are equal.
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
