package ngram

import "errors"

// MaxGrams bounds the number of n-grams in a set, and so its memory to 8 bytes for each of twice as many.
const MaxGrams = 4 << 20

// ErrFull is the error for a set that would exceed MaxGrams.
var ErrFull = errors.New("more runs of words than a set can hold")

// HeldOut is a set of n-grams, stored as 64-bit hashes. With four million n-grams in the set, a text matches by mistake about once in 10^12
// words. Once everything is added, lookups are safe for concurrent use.
type HeldOut struct {
	n     int
	slots []uint64 // hash table; 0 is a free slot
	grams int
}

// NewHeldOut returns an empty set of n-grams of n words.
func NewHeldOut(n int) *HeldOut { return &HeldOut{n: n, slots: make([]uint64, 1024)} }

// Grams returns the number of different n-grams in the set.
func (s *HeldOut) Grams() int { return s.grams }

// Add adds the n-grams of a text.
func (s *HeldOut) Add(text string) error {
	for gram := range grams(text, s.n, 0) {
		if s.grams >= MaxGrams {
			return ErrFull
		}
		s.put(max(gram, 1))
	}
	return nil
}

// Shares reports whether a text has an n-gram of the set.
func (s *HeldOut) Shares(text string) bool {
	for gram := range grams(text, s.n, 0) {
		if _, found := s.find(max(gram, 1)); found {
			return true
		}
	}
	return false
}

// find returns the slot of a hash, or the free slot for it.
func (s *HeldOut) find(gram uint64) (at uint64, found bool) {
	mask := uint64(len(s.slots) - 1)
	for at = gram & mask; s.slots[at] != 0; at = (at + 1) & mask {
		if s.slots[at] == gram {
			return at, true
		}
	}
	return at, false
}

func (s *HeldOut) put(gram uint64) {
	at, found := s.find(gram)
	if found {
		return
	}
	s.slots[at] = gram
	if s.grams++; 2*s.grams <= len(s.slots) {
		return
	}
	old := s.slots
	s.slots = make([]uint64, 2*len(old))
	for _, gram := range old {
		if gram != 0 {
			at, _ := s.find(gram)
			s.slots[at] = gram
		}
	}
}
