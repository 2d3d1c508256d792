package quality

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/sluiceml/sluice/pipelines/text/script"
)

// word is a word of a text. Words are separated by white space; in addition, each letter of a script without spaces begins a word, which
// includes the following characters that are not letters or digits.
type word struct {
	text  string
	chars int
	has   class
	gap   bool // white space precedes it
	hash  uint64
}

// class is the set of the classes of a word's characters.
type class uint8

const (
	alpha    class = 1 << iota // a letter
	digit                      // a decimal digit
	plain                      // neither punctuation nor a symbol
	unspaced                   // a letter of a script without spaces
	space
)

// ascii has the classes of the ASCII characters.
var ascii = func() (classes [utf8.RuneSelf]class) {
	for r := range rune(utf8.RuneSelf) {
		classes[r] = classify(r)
		if unicode.IsControl(r) && classes[r] != space {
			classes[r] = 0
		}
	}
	return classes
}()

func classify(r rune) class {
	switch {
	case unicode.IsSpace(r):
		return space
	case unicode.IsLetter(r):
		if script.Unspaced(r) {
			return alpha | plain | unspaced
		}
		return alpha | plain
	case unicode.IsDigit(r):
		return digit | plain
	case unicode.In(r, unicode.P, unicode.S):
		return 0
	}
	return plain
}

// appendWords appends the words of s.
func appendWords(words []word, s string) []word {
	start, w := -1, word{hash: hashStart}
	for i, r := range s {
		var is class
		if r < utf8.RuneSelf {
			is = ascii[r]
		} else {
			is = classify(r)
		}
		ends := is == space || (is|w.has)&unspaced != 0 && (is&unspaced != 0 && w.has&alpha != 0 || w.has&unspaced != 0 && is&(alpha|digit) != 0)
		if ends && start >= 0 {
			w.text = s[start:i]
			words = append(words, w)
			start, w = -1, word{hash: hashStart}
		}
		if is == space {
			w.gap = true
			continue
		}
		if start < 0 {
			start = i
		}
		w.chars++
		w.has |= is
		w.hash = (w.hash ^ uint64(r)) * hashPrime
	}
	if start >= 0 {
		w.text = s[start:]
		words = append(words, w)
	}
	return words
}

// countWords returns how many words s has and the number of characters of the longest.
func countWords(s string) (n, longest int) {
	const firstUnspaced = '\u0E00' // letters before it belong to scripts with spaces
	chars := 0
	for _, r := range s {
		switch {
		case r >= firstUnspaced:
			return countAllWords(s)
		case ' ' < r && r < 0x7f || !unicode.IsSpace(r):
			if chars++; chars == 1 {
				n++
			}
			longest = max(longest, chars)
		default:
			chars = 0
		}
	}
	return n, longest
}

func countAllWords(s string) (n, longest int) {
	words := appendWords(nil, s)
	for _, w := range words {
		longest = max(longest, w.chars)
	}
	return len(words), longest
}

// isTerminal reports whether a character ends a sentence in some script: Unicode's Sentence_Terminal, and the Khmer signs, as in datatrove.
func isTerminal(r rune) bool {
	return unicode.Is(unicode.Sentence_Terminal, r) || '\u17D4' <= r && r <= '\u17D6' || r == '\u17D9' || r == '\u17DA'
}

// lastRune returns the last character of s.
func lastRune(s string) rune {
	r, _ := utf8.DecodeLastRuneInString(s)
	return r
}

// The parameters of 64-bit FNV-1a.
const (
	hashStart = 14695981039346656037
	hashPrime = 1099511628211
)

// allLines returns the lines of s, including empty ones.
func allLines(s string) []string {
	if s = strings.TrimSuffix(s, "\n"); s == "" {
		return nil
	}
	return strings.Split(s, "\n")
}

// filledLines returns the lines of s that are not only white space.
func filledLines(s string) []string {
	return slices.DeleteFunc(allLines(s), func(line string) bool { return strings.TrimSpace(line) == "" })
}

// splitAtBreaks splits s at runs of at least so many line breaks.
func splitAtBreaks(s string, least int) []string {
	var parts []string
	start := 0
	for i := 0; i < len(s); {
		if s[i] != '\n' {
			next := strings.IndexByte(s[i:], '\n')
			if next < 0 {
				break
			}
			i += next
		}
		run := i
		for i < len(s) && s[i] == '\n' {
			i++
		}
		if i-run >= least {
			parts = append(parts, s[start:run])
			start = i
		}
	}
	return append(parts, s[start:])
}

// duplicates returns how many of the parts repeat an earlier one, and how many characters they have.
func duplicates(parts []string) (count, chars int) {
	if len(parts) < 2 {
		return 0, 0
	}
	seen := make(map[string]bool, len(parts))
	for _, p := range parts {
		if seen[p] {
			count++
			chars += utf8.RuneCountInString(p)
		}
		seen[p] = true
	}
	return count, chars
}

// countWhere returns how many of the parts satisfy a condition.
func countWhere(parts []string, ok func(string) bool) int {
	n := 0
	for _, p := range parts {
		if ok(p) {
			n++
		}
	}
	return n
}
