package quality

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/dsl/transform"
)

// stopWords are Gopher's: English ones (arXiv:2112.11446, A.1.1).
var stopWords = []string{"the", "be", "to", "of", "and", "that", "have", "with"}

// The largest shares of characters in repeated n-grams, of Gopher's table A1: for the most frequent 2, 3 and 4 words, and for all of
// 5 to 10 words.
var (
	maxTopNgrams       = []spec.Share{0.20, 0.18, 0.16}
	maxDuplicateNgrams = []spec.Share{0.15, 0.14, 0.13, 0.12, 0.11, 0.10}
)

// The lengths of the n-grams that these shares begin with.
const (
	firstTop       = 2
	firstDuplicate = 5
)

// gopherNames are Gopher's rules in the order they are applied.
func gopherNames() []string {
	names := []string{
		"words", "word_length", "symbols", "bullet_lines", "ellipsis_lines", "alpha_words", "stop_words",
		"duplicate_lines", "duplicate_paragraphs", "duplicate_line_chars", "duplicate_paragraph_chars",
	}
	for i := range maxTopNgrams {
		names = append(names, topName(firstTop+i))
	}
	for i := range maxDuplicateNgrams {
		names = append(names, duplicateName(firstDuplicate+i))
	}
	return names
}

func topName(n int) string       { return fmt.Sprintf("top_%d_gram", n) }
func duplicateName(n int) string { return fmt.Sprintf("duplicate_%d_grams", n) }

type gopher struct {
	transform.GopherRules
	longestStop int // in bytes
}

func newGopher(r transform.GopherRules) (*gopher, error) {
	if r.StopWords == nil {
		r.StopWords = stopWords
	}
	if r.MaxTopNgrams == nil {
		r.MaxTopNgrams = maxTopNgrams
	}
	if r.MaxDuplicateNgrams == nil {
		r.MaxDuplicateNgrams = maxDuplicateNgrams
	}
	if len(r.MaxTopNgrams) != len(maxTopNgrams) || len(r.MaxDuplicateNgrams) != len(maxDuplicateNgrams) {
		return nil, fmt.Errorf("gopher: max_top_ngrams are %d shares and max_duplicate_ngrams %d", len(maxTopNgrams), len(maxDuplicateNgrams))
	}
	g := &gopher{GopherRules: r}
	for _, w := range r.StopWords {
		g.longestStop = max(g.longestStop, len(w))
	}
	return g, nil
}

// The bullets that Gopher's rule is about; the paper names none.
var (
	isBullet   = func(line string) bool { return strings.ContainsRune("•‣●◦▪-*–", firstRune(line)) }
	isEllipsis = endsWith("...", "…")
)

func firstRune(s string) rune {
	r, _ := utf8.DecodeRuneInString(s)
	return r
}

func (g *gopher) evaluate(text string) (string, string) {
	grams := newNgrams(text)
	defer grams.release()
	if failed := g.evaluateWords(text, grams.words); failed != "" {
		return text, failed
	}
	lines := appendLines(nil, text)
	switch {
	case share(countWhere(lines, isBullet), len(lines)) > float64(g.MaxBulletLines):
		return text, "bullet_lines"
	case share(countWhere(lines, isEllipsis), len(lines)) > float64(g.MaxEllipsisLines):
		return text, "ellipsis_lines"
	case share(countAlpha(grams.words), len(grams.words)) < float64(g.MinAlphaWords):
		return text, "alpha_words"
	case g.countStopWords(grams.words) < g.MinStopWords:
		return text, "stop_words"
	}
	return text, g.judgeRepetition(text, lines, grams)
}

func (g *gopher) evaluateWords(text string, words []word) string {
	chars := 0
	for _, w := range words {
		chars += w.chars
	}
	length := share(chars, len(words))
	hashes, ellipses := strings.Count(text, "#"), strings.Count(text, "...")+strings.Count(text, "…")
	switch {
	case len(words) < g.MinWords || len(words) > g.MaxWords:
		return "words"
	case length < g.MinWordLength || length > g.MaxWordLength:
		return "word_length"
	case share(max(hashes, ellipses), len(words)) > float64(g.MaxSymbols):
		return "symbols"
	}
	return ""
}

func countAlpha(words []word) int {
	n := 0
	for _, w := range words {
		if w.alpha {
			n++
		}
	}
	return n
}

// maxAround is how many bytes of punctuation a stop word may have around it.
const maxAround = 8

// countStopWords returns how many of the stop words, each counted once, are among words. Capitals and punctuation around a word do
// not matter. It stops when there are enough.
func (g *gopher) countStopWords(words []word) int {
	var seen []string
	for _, w := range words {
		if len(seen) >= g.MinStopWords {
			break
		}
		if len(w.text) > g.longestStop+maxAround {
			continue
		}
		bare := strings.ToLower(strings.Trim(w.text, `.,;:!?"'()[]“”‘’`))
		if slices.Contains(g.StopWords, bare) && !slices.Contains(seen, bare) {
			seen = append(seen, bare)
		}
	}
	return len(seen)
}

func (g *gopher) judgeRepetition(text string, lines []string, grams *ngrams) string {
	chars := utf8.RuneCountInString(text)
	dupLines, dupLineChars := duplicates(lines)
	paragraphs := appendParagraphs(nil, text)
	dupParagraphs, dupParagraphChars := duplicates(paragraphs)
	switch {
	case share(dupLines, len(lines)) > float64(g.MaxDuplicateLines):
		return "duplicate_lines"
	case share(dupParagraphs, len(paragraphs)) > float64(g.MaxDuplicateParagraphs):
		return "duplicate_paragraphs"
	case share(dupLineChars, chars) > float64(g.MaxDuplicateLineChars):
		return "duplicate_line_chars"
	case share(dupParagraphChars, chars) > float64(g.MaxDuplicateParagraphChars):
		return "duplicate_paragraph_chars"
	}
	grams.prepare()
	for i, limit := range g.MaxTopNgrams {
		if share(grams.top(firstTop+i), chars) > float64(limit) {
			return topName(firstTop + i)
		}
	}
	for i, limit := range g.MaxDuplicateNgrams {
		if share(grams.duplicate(firstDuplicate+i), chars) > float64(limit) {
			return duplicateName(firstDuplicate + i)
		}
	}
	return ""
}
