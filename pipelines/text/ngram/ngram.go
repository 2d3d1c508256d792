// Package ngram compares texts by their n-grams, which are sequences of n words: it finds texts that are nearly the same, and texts that
// share an n-gram with held-out texts. It does no I/O.
//
// Words are sequences of letters, marks and digits; case and format characters, such as joiners, are ignored. In scripts without spaces
// between words, each letter with its marks is a word. A text with fewer than n words has a single n-gram, which only texts with the same
// words have.
package ngram

import (
	"iter"
	"unicode"
	"unicode/utf8"

	"github.com/sluiceml/sluice/pipelines/text/script"
)

// base is the base of the polynomial hash over the hashes of words.
const base = 0x9E3779B97F4A7C15

// mix mixes the bits of a hash: each input bit affects half of the output bits.
func mix(h uint64) uint64 {
	h = (h ^ h>>30) * 0xBF58476D1CE4E5B9
	h = (h ^ h>>27) * 0x94D049BB133111EB
	return h ^ h>>31
}

// The parameters of 64-bit FNV-1a.
const (
	hashStart = 14695981039346656037
	hashPrime = 1099511628211
)

// grams yields the hash of each n-gram of a text; the hashes depend on the seed. A text without words has none. Memory: n words.
func grams(text string, n int, seed uint64) iter.Seq[uint64] {
	return func(yield func(uint64) bool) {
		ring := make([]uint64, n) // hashes of the last n words
		high := uint64(1)         // base to the power of n
		for range n {
			high *= base
		}
		sum, at, count := seed, 0, 0
		for word := range words(text) {
			sum = sum*base + word - ring[at]*high
			ring[at] = word
			if at++; at == n {
				at = 0
			}
			if count++; count >= n && !yield(mix(sum)) {
				return
			}
		}
		if count > 0 && count < n {
			yield(mix(sum + uint64(count+1))) // the length distinguishes it from n-grams of n words
		}
	}
}

// words yields the hash of each word of a text.
func words(text string) iter.Seq[uint64] {
	return func(yield func(uint64) bool) {
		word := uint64(hashStart)
		alone := false // the word is a single letter of a script without spaces
		for _, r := range text {
			switch {
			case 'a' <= r && r <= 'z' || '0' <= r && r <= '9':
			case 'A' <= r && r <= 'Z':
				r |= 0x20
			case r >= utf8.RuneSelf && (unicode.IsLetter(r) || unicode.IsNumber(r)):
				if script.Unspaced(r) {
					if word != hashStart && !yield(word) {
						return
					}
					word, alone = (hashStart^uint64(r))*hashPrime, true
					continue
				}
				r = unicode.ToLower(r)
			case r >= utf8.RuneSelf && unicode.In(r, unicode.Mark, unicode.Cf):
				if word != hashStart && unicode.IsMark(r) { // it belongs to the letter before
					word = (word ^ uint64(r)) * hashPrime
				}
				continue
			default:
				if word != hashStart && !yield(word) {
					return
				}
				word, alone = hashStart, false
				continue
			}
			if alone {
				if !yield(word) {
					return
				}
				word, alone = hashStart, false
			}
			word = (word ^ uint64(r)) * hashPrime
		}
		if word != hashStart {
			yield(word)
		}
	}
}
