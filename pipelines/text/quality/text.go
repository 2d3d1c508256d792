package quality

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// word is a word of a text.
type word struct {
	text  string
	chars int
	alpha bool // it has a letter
	hash  uint64
}

// appendWords appends the words of s.
func appendWords(words []word, s string) []word {
	start := -1
	w := word{hash: hashStart}
	end := func(i int) {
		if start >= 0 {
			w.text = s[start:i]
			words = append(words, w)
			start, w = -1, word{hash: hashStart}
		}
	}
	for i, r := range s {
		if unicode.IsSpace(r) {
			end(i)
			continue
		}
		if start < 0 {
			start = i
		}
		w.chars++
		w.alpha = w.alpha || 'a' <= r|0x20 && r|0x20 <= 'z' || r >= utf8.RuneSelf && unicode.IsLetter(r)
		w.hash = (w.hash ^ uint64(r)) * hashPrime
	}
	end(len(s))
	return words
}

// The parameters of FNV-1a with 64 bits.
const (
	hashStart = 14695981039346656037
	hashPrime = 1099511628211
)

// appendLines appends the lines of s that have more than white space in them, without what surrounds them.
func appendLines(lines []string, s string) []string {
	for line := range strings.SplitSeq(s, "\n") {
		if line = strings.TrimSpace(line); line != "" {
			lines = append(lines, line)
		}
	}
	return lines
}

// appendParagraphs appends what stands between empty lines in s.
func appendParagraphs(paragraphs []string, s string) []string {
	start, end := -1, 0
	at := 0
	for line := range strings.SplitAfterSeq(s, "\n") {
		if strings.TrimSpace(line) != "" {
			if start < 0 {
				start = at
			}
			end = at + len(line)
		} else if start >= 0 {
			paragraphs = append(paragraphs, strings.TrimSpace(s[start:end]))
			start = -1
		}
		at += len(line)
	}
	if start >= 0 {
		paragraphs = append(paragraphs, strings.TrimSpace(s[start:end]))
	}
	return paragraphs
}

// duplicates returns how many of parts are there before, and how many characters these have.
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

// countWhere returns how many of parts meet a condition.
func countWhere(parts []string, ok func(string) bool) int {
	n := 0
	for _, p := range parts {
		if ok(p) {
			n++
		}
	}
	return n
}

// endsWith returns a condition: the text ends with one of these.
func endsWith(ends ...string) func(string) bool {
	return func(s string) bool {
		return slices.ContainsFunc(ends, func(end string) bool { return strings.HasSuffix(s, end) })
	}
}
