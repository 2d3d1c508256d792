package ngram

import "errors"

// MaxGrams bounds the runs of a set, and so its memory to 8 bytes for each of twice as many.
const MaxGrams = 4 << 20

// ErrFull is the error of a set that would hold more than MaxGrams runs.
var ErrFull = errors.New("more runs of words than a set can hold")

// HeldOut holds runs of n words, of each a hash of 64 bits, so that a text is wrongly taken to share one about once in 10^12 of its words, with
// four million runs in the set. Texts may be looked up from several goroutines when all is added.
type HeldOut struct {
	n     int
	slots []uint64 // by hash; 0 is a free one
	grams int
}

// NewHeldOut returns an empty set of runs of n words.
func NewHeldOut(n int) *HeldOut { return &HeldOut{n: n, slots: make([]uint64, 1024)} }

// Grams is how many different runs the set holds.
func (s *HeldOut) Grams() int { return s.grams }

// Add adds the runs of a text.
func (s *HeldOut) Add(text string) error {
	for gram := range grams(text, s.n, 0) {
		if s.grams >= MaxGrams {
			return ErrFull
		}
		s.put(max(gram, 1))
	}
	return nil
}

// Shares reports whether a text shares a run with the set.
func (s *HeldOut) Shares(text string) bool {
	for gram := range grams(text, s.n, 0) {
		if _, found := s.find(max(gram, 1)); found {
			return true
		}
	}
	return false
}

// find returns the slot of a hash, or the one to put it into.
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
