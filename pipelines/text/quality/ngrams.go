package quality

import "sync"

// maxNgramWords is how many words of a text the rules of repeated n-grams look at: it bounds their memory to some 50 MB.
const maxNgramWords = 1_000_000

// ngrams measures how much of a text is in words that are repeated in a row. It holds the tables, for use again.
type ngrams struct {
	words    []word
	sums     []uint64 // sums[i] is the hash of the words before i
	chars    []int    // chars[i] is the number of characters before i
	slots    []slot
	inUse    uint32 // the round whose slots are in use: a table is emptied by a new round
	capacity uint64
}

type slot struct {
	key   uint64
	round uint32
	count uint32
}

// base makes a polynomial of the hashes of words.
const base = 0x9E3779B97F4A7C15

var ngramTables = sync.Pool{New: func() any { return new(ngrams) }}

// newNgrams takes tables for a text; give them back with release.
func newNgrams(text string) *ngrams {
	g := ngramTables.Get().(*ngrams)
	g.words = appendWords(g.words[:0], text)
	return g
}

// maxKept bounds the tables that are kept for the next text, in words.
const maxKept = 1 << 15

func (g *ngrams) release() {
	if cap(g.words) <= maxKept {
		clear(g.words) // they hold on to the text
		ngramTables.Put(g)
	}
}

// prepare fills the tables that hashes of n-grams are made from.
func (g *ngrams) prepare() {
	n := min(len(g.words), maxNgramWords)
	g.sums, g.chars = append(g.sums[:0], 0), append(g.chars[:0], 0)
	for i, w := range g.words[:n] {
		g.sums = append(g.sums, g.sums[i]*base+w.hash)
		g.chars = append(g.chars, g.chars[i]+w.chars)
	}
	size := 16
	for size < 2*n {
		size *= 2
	}
	if len(g.slots) < size {
		g.slots, g.inUse = make([]slot, size), 0
	}
	g.capacity = uint64(len(g.slots))
}

// reset empties the table.
func (g *ngrams) reset() {
	if g.inUse++; g.inUse == 0 { // after 2^32 rounds old slots would look new
		clear(g.slots)
		g.inUse = 1
	}
}

// see counts an n-gram by its hash and returns how often it was seen by now.
func (g *ngrams) see(key uint64) uint32 {
	at := (key ^ key>>29) * base
	at ^= at >> 32
	for at &= g.capacity - 1; ; at = (at + 1) & (g.capacity - 1) {
		switch s := &g.slots[at]; {
		case s.round != g.inUse:
			*s = slot{key: key, round: g.inUse, count: 1}
			return 1
		case s.key == key:
			s.count++
			return s.count
		}
	}
}

// power returns base to the n.
func power(n int) uint64 {
	p := uint64(1)
	for range n {
		p *= base
	}
	return p
}

// top returns how many characters are in the most frequent n-gram, all times it is there together, if it is there twice. Of several
// that are equally frequent the longest counts.
func (g *ngrams) top(n int) int {
	g.reset()
	p := power(n)
	most, chars := uint32(1), 0
	for i := 0; i+n < len(g.sums); i++ {
		count := g.see(g.sums[i+n] - g.sums[i]*p)
		if length := (g.chars[i+n] - g.chars[i]) * int(count); count > most || count == most && count > 1 && length > chars {
			most, chars = count, length
		}
	}
	return chars
}

// duplicate returns how many characters are in n-grams that are there before, none counted twice.
func (g *ngrams) duplicate(n int) int {
	g.reset()
	p := power(n)
	chars := 0
	for i := 0; i+n < len(g.sums); {
		if g.see(g.sums[i+n]-g.sums[i]*p) > 1 {
			chars += g.chars[i+n] - g.chars[i]
			i += n
		} else {
			i++
		}
	}
	return chars
}
