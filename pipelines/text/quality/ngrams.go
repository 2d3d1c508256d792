package quality

import (
	"math"
	"sync"
)

// maxNgramWords is how many words of a text the rules of repeated n-grams examine: it bounds their memory to some 50 MB.
const maxNgramWords = 1_000_000

// ngrams measures how much of a text is in repeated n-grams. Its tables are reused for several texts.
type ngrams struct {
	words    []word
	sums     []uint64 // sums[i] is the hash of the words before i
	chars    []int    // chars[i] is the number of characters before i
	gaps     []int    // gaps[i] is the number of words before i with white space before them
	slots    []slot
	begun    uint32 // slots first seen before this are empty: raising it empties the table
	last     uint32 // the highest first that may have been used
	capacity uint64
}

type slot struct {
	key   uint64
	first uint32 // when the n-gram was first seen
	count uint32
}

// base is the base of the polynomial hash over the hashes of words.
const base = 0x9E3779B97F4A7C15

var ngramTables = sync.Pool{New: func() any { return new(ngrams) }}

// newNgrams returns tables for a text. The caller must release them.
func newNgrams(text string) *ngrams {
	g := ngramTables.Get().(*ngrams)
	g.words = appendWords(g.words[:0], text)
	return g
}

// maxKept bounds the size of tables that are kept for reuse, in words.
const maxKept = 1 << 15

func (g *ngrams) release() {
	if cap(g.words) <= maxKept {
		clear(g.words) // they refer to the text
		ngramTables.Put(g)
	}
}

// prepare fills the tables from which hashes of n-grams are computed.
func (g *ngrams) prepare() {
	n := min(len(g.words), maxNgramWords)
	g.sums, g.chars, g.gaps = append(g.sums[:0], 0), append(g.chars[:0], 0), append(g.gaps[:0], 0)
	for i, w := range g.words[:n] {
		gap := 0
		if w.gap {
			gap = 1
		}
		g.gaps = append(g.gaps, g.gaps[i]+gap)
		g.sums = append(g.sums, g.sums[i]*base+w.hash)
		g.chars = append(g.chars, g.chars[i]+w.chars)
	}
	size := 16
	for size < 2*n {
		size *= 2
	}
	if len(g.slots) < size {
		g.slots, g.last = make([]slot, size), 0
	}
	g.capacity = uint64(len(g.slots))
}

// reset empties the hash table.
func (g *ngrams) reset() {
	if g.last > math.MaxUint32-2*maxNgramWords {
		clear(g.slots)
		g.last = 0
	}
	g.begun = g.last + 1
	g.last += uint32(len(g.sums))
}

// see counts the n-gram at word i, given its hash, and returns its slot.
func (g *ngrams) see(key uint64, i int) *slot {
	at := (key ^ key>>29) * base
	at ^= at >> 32
	for at &= g.capacity - 1; ; at = (at + 1) & (g.capacity - 1) {
		switch s := &g.slots[at]; {
		case s.first < g.begun:
			*s = slot{key: key, first: g.begun + uint32(i), count: 1}
			return s
		case s.key == key:
			s.count++
			return s
		}
	}
}

// power returns base to the power of n.
func power(n int) uint64 {
	p := uint64(1)
	for range n {
		p *= base
	}
	return p
}

// top returns the number of characters in all occurrences of the most frequent n-gram, or 0 if none occurs twice. If several are equally
// frequent, the first one counts. Between words there is a space where the text has one.
func (g *ngrams) top(n int) int {
	g.reset()
	p := power(n)
	most, first, length := uint32(1), uint32(0), 0
	for i := 0; i+n < len(g.sums); i++ {
		s := g.see(g.sums[i+n]-g.sums[i]*p, i)
		if s.count > most || s.count == most && s.first < first {
			most, first, length = s.count, s.first, g.chars[i+n]-g.chars[i]+g.gaps[i+n]-g.gaps[i+1]
		}
	}
	return length * int(most)
}

// duplicate returns the number of characters in n-grams that occurred before, without counting any twice.
func (g *ngrams) duplicate(n int) int {
	g.reset()
	p := power(n)
	chars := 0
	for i := 0; i+n < len(g.sums); {
		if g.see(g.sums[i+n]-g.sums[i]*p, i).count > 1 {
			chars += g.chars[i+n] - g.chars[i]
			i += n
		} else {
			i++
		}
	}
	return chars
}
