// Package minhash finds texts that are nearly the same: texts of which a large share of the runs of words is the same. It is pure.
//
// A text is the set of its shingles, hashes of n words in a row, and two texts are as alike as their sets are: by their Jaccard
// similarity, what they share by what they have together. To compare each text with each is too much; so a text has bands, hashes of
// some minima over the set, of which two texts share one with a probability that rises steeply with how alike they are, and only such
// texts are compared. The comparison is exact. What is found is therefore alike, and what is missed are pairs without a common band:
// (1-s^rows)^bands of those that are alike by s.
//
// Words are runs of letters, marks and digits, without regard to case; of scripts that write no spaces each letter is a word. A text of
// fewer words than a shingle is one shingle, which only a text of the same words has, and so is a text of none.
package minhash

import (
	"math/rand/v2"
	"slices"
	"unicode"
)

// Hasher makes shingles and bands of texts. It may be used from several goroutines.
type Hasher struct {
	ngram, bands, rows int
	// a and b are the functions whose minima are taken, a*x+b modulo 2^64: x is mixed well, and of the sum the upper bits decide.
	a, b []uint64
}

// New returns the hasher of shingles of ngram words, with bands of rows minima each. All are at least 1.
func New(ngram, bands, rows int) *Hasher {
	h := &Hasher{ngram: ngram, bands: bands, rows: rows, a: make([]uint64, bands*rows), b: make([]uint64, bands*rows)}
	r := rand.New(rand.NewPCG(uint64(rows), 1)) // always the same functions: bands of one run are compared with those of another's
	for i := range h.a {
		h.a[i], h.b[i] = r.Uint64()|1, r.Uint64()
	}
	return h
}

// base makes a polynomial of the hashes of words.
const base = 0x9E3779B97F4A7C15

// mix spreads the bits of a hash: each bit of it changes half of the result's.
func mix(h uint64) uint64 {
	h = (h ^ h>>30) * 0xBF58476D1CE4E5B9
	h = (h ^ h>>27) * 0x94D049BB133111EB
	return h ^ h>>31
}

// The parameters of FNV-1a with 64 bits.
const (
	hashStart = 14695981039346656037
	hashPrime = 1099511628211
)

// Shingles appends the shingles of texts, which do not run from one text into the next, in their order and as often as they are there.
func (h *Hasher) Shingles(to []uint64, texts ...string) []uint64 {
	words := make([]uint64, 0, 512)
	high := uint64(1) // base to the ngram
	for range h.ngram {
		high *= base
	}
	for i, text := range texts {
		words = appendWords(words[:0], text)
		sum := uint64(i) // the same words in another field are another shingle
		for at, word := range words {
			sum = sum*base + word
			if at >= h.ngram {
				sum -= words[at-h.ngram] * high
			}
			if at >= h.ngram-1 {
				to = append(to, mix(sum))
			}
		}
		if len(words) < h.ngram {
			to = append(to, mix(sum+uint64(len(words)+1)))
		}
	}
	return to
}

// appendWords appends the hashes of a text's words.
func appendWords(words []uint64, text string) []uint64 {
	word := uint64(hashStart)
	end := func() {
		if word != hashStart {
			words, word = append(words, word), hashStart
		}
	}
	for _, r := range text {
		switch {
		case 'a' <= r && r <= 'z' || '0' <= r && r <= '9':
		case 'A' <= r && r <= 'Z':
			r |= 0x20
		case r >= 0x80 && (unicode.IsLetter(r) || unicode.IsNumber(r) || unicode.IsMark(r)):
			if unicode.In(r, unspaced...) {
				end()
				words = append(words, (hashStart^uint64(r))*hashPrime)
				continue
			}
			r = unicode.ToLower(r)
		default:
			end()
			continue
		}
		word = (word ^ uint64(r)) * hashPrime
	}
	end()
	return words
}

// unspaced are the scripts that put no spaces between words.
var unspaced = []*unicode.RangeTable{
	unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Thai, unicode.Lao, unicode.Khmer, unicode.Myanmar,
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
