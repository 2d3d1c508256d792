// Package suggest suggests the word that was meant by one that is unknown.
package suggest

import (
	"slices"
	"strings"
)

// Hint returns a hint naming the candidate nearest to word, or the candidates themselves when they are few and none is near.
func Hint(word string, candidates []string) string {
	candidates = slices.DeleteFunc(slices.Sorted(slices.Values(candidates)), func(c string) bool { return c == "" })
	hint := DidYouMean(word, candidates)
	if hint == "" && len(candidates) > 0 && len(candidates) <= 20 {
		hint = "known names: " + strings.Join(candidates, ", ")
	}
	return hint
}

// Help is Hint as the second line of an error message, or "".
func Help(word string, candidates []string) string { return helpLine(Hint(word, candidates)) }

// HelpNear is DidYouMean as the second line of an error message, or "".
func HelpNear(word string, candidates []string) string { return helpLine(DidYouMean(word, candidates)) }

func helpLine(hint string) string {
	if hint == "" {
		return ""
	}
	return "\nhelp: " + hint
}

// To returns the candidate that word is likely to be a slip of the finger for, or "".
func To(word string, candidates []string) string {
	best, distance := "", min(max(1, len(word)/3)+1, len(word))
	for _, c := range candidates {
		if max(len(c)-len(word), len(word)-len(c)) > 4*distance { // letters have up to four bytes
			continue
		}
		if d := editDistance(strings.ToLower(word), strings.ToLower(c)); d < distance {
			best, distance = c, d
		}
	}
	return best
}

// DidYouMean is a hint for a word whose alternatives the message has named already.
func DidYouMean(word string, candidates []string) string {
	if best := To(word, candidates); best != "" {
		return "did you mean `" + best + "`?"
	}
	return ""
}

// editDistance is the Damerau-Levenshtein distance in its optimal string alignment form: insertions, deletions, replacements and
// swaps of neighbours.
func editDistance(a, b string) int {
	if len(a) > 64 || len(b) > 64 {
		return 64
	}
	var before, last, row [65]int
	for j := range len(b) + 1 {
		last[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			row[j] = min(last[j]+1, row[j-1]+1, last[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, last = last, row
	}
	return last[len(b)]
}
