// Package overlap tells texts that share a run of words with a set of others. It is pure.
//
// Words are runs of letters, marks and digits, without regard to case. What is kept of the set is a hash of 64 bits for each run, so that a
// text is wrongly taken to share one about once in 10^12 of its words, with four million runs in the set.
package overlap

import (
	"errors"
	"unicode"
)

// MaxGrams bounds the runs of a set, and so its memory to 8 bytes for each of twice as many.
const MaxGrams = 4 << 20

// ErrFull is the error of a set that would hold more than MaxGrams runs.
var ErrFull = errors.New("more runs of words than a set can hold")

// Set holds runs of n words. Texts may be looked up from several goroutines when all is added.
type Set struct {
	n     int
	slots []uint64 // by hash; 0 is a free one
	grams int
}

// New returns an empty set of runs of n words.
func New(n int) *Set { return &Set{n: n, slots: make([]uint64, 1024)} }

// Grams is how many different runs the set holds.
func (s *Set) Grams() int { return s.grams }

// Add adds the runs of a text. A text of fewer words is one run, which only a text of the same words shares.
func (s *Set) Add(text string) error {
	var err error
	s.each(text, func(gram uint64) bool {
		if s.grams >= MaxGrams {
			err = ErrFull
			return false
		}
		s.put(gram)
		return true
	})
	return err
}

// Shares reports whether a text shares a run with the set.
func (s *Set) Shares(text string) bool {
	found := false
	s.each(text, func(gram uint64) bool {
		_, found = s.find(gram)
		return !found
	})
	return found
}

// find returns the slot of a hash, or the one to put it into.
func (s *Set) find(gram uint64) (at uint64, found bool) {
	mask := uint64(len(s.slots) - 1)
	for at = gram & mask; s.slots[at] != 0; at = (at + 1) & mask {
		if s.slots[at] == gram {
			return at, true
		}
	}
	return at, false
}

func (s *Set) put(gram uint64) {
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

// base makes a polynomial of the hashes of words, and mix spreads its bits.
const base = 0x9E3779B97F4A7C15

func mix(h uint64) uint64 {
	h ^= h >> 31
	h *= 0xBF58476D1CE4E5B9
	h ^= h >> 29
	return max(h, 1)
}

// The parameters of FNV-1a with 64 bits.
const (
	hashStart = 14695981039346656037
	hashPrime = 1099511628211
)

// each calls yield for the hash of each run of n words in text, until it returns false. Memory: n words.
func (s *Set) each(text string, yield func(gram uint64) bool) {
	ring := make([]uint64, s.n) // of the last n words
	high := uint64(1)           // base to the n
	for range s.n {
		high *= base
	}
	sum, words, word := uint64(0), 0, uint64(hashStart)
	end := func() bool {
		if word == hashStart {
			return true
		}
		sum = sum*base + word - ring[words%s.n]*high
		ring[words%s.n] = word
		words, word = words+1, hashStart
		return words < s.n || yield(mix(sum))
	}
	for _, r := range text {
		switch {
		case 'a' <= r && r <= 'z' || '0' <= r && r <= '9':
		case 'A' <= r && r <= 'Z':
			r |= 0x20
		case r >= 0x80 && (unicode.IsLetter(r) || unicode.IsNumber(r) || unicode.IsMark(r)):
			r = unicode.ToLower(r)
		default:
			if !end() {
				return
			}
			continue
		}
		word = (word ^ uint64(r)) * hashPrime
	}
	if end() && words > 0 && words < s.n {
		yield(mix(sum + uint64(words))) // with its length, which makes it another run than one of n words
	}
}
