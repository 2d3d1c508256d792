package quality

import (
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/dsl/transform"
	"github.com/sluiceml/sluice/pipelines/text/script"
)

// stopWords are Gopher's English stop words (arXiv:2112.11446, A.1.1).
var stopWords = []string{"the", "be", "to", "of", "and", "that", "have", "with"}

// The maximum shares of characters in repeated n-grams, from Gopher's table A1: in the most frequent n-gram of 2, 3 and 4 words, and in all
// repeated n-grams of 5 to 10 words.
var (
	maxTopNgrams       = []spec.Share{0.20, 0.18, 0.16}
	maxDuplicateNgrams = []spec.Share{0.15, 0.14, 0.13, 0.12, 0.11, 0.10}
)

// The lengths of the n-grams for the first of these shares.
const (
	firstTop       = 2
	firstDuplicate = 5
)

// gopherNames returns Gopher's rules in the order in which they are applied.
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
	// unspaced are the stop words of scripts without spaces, which are searched for in the text.
	unspaced []string
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
		return nil, fmt.Errorf("gopher: max_top_ngrams has %d shares and max_duplicate_ngrams %d", len(maxTopNgrams), len(maxDuplicateNgrams))
	}
	g := &gopher{GopherRules: r}
	for _, w := range r.StopWords {
		g.longestStop = max(g.longestStop, len(w))
		if strings.IndexFunc(w, script.Unspaced) >= 0 {
			g.unspaced = append(g.unspaced, w)
		}
	}
	return g, nil
}

// isBullet reports whether a line begins with a bullet. The paper does not list the characters; these are datatrove's.
func isBullet(line string) bool {
	line = strings.TrimSpace(line)
	return strings.HasPrefix(line, "•") || strings.HasPrefix(line, "-")
}

func isEllipsis(line string) bool {
	line = strings.TrimSpace(line)
	return strings.HasSuffix(line, "...") || strings.HasSuffix(line, "…")
}

func (g *gopher) evaluate(text string) (string, string) {
	grams := newNgrams(text)
	defer grams.release()
	if failed := g.evaluateWords(text, grams.words); failed != "" {
		return text, failed
	}
	lines := allLines(text)
	switch {
	case share(countWhere(lines, isBullet), len(lines)) > float64(g.MaxBulletLines):
		return text, "bullet_lines"
	case share(countWhere(lines, isEllipsis), len(lines)) > float64(g.MaxEllipsisLines):
		return text, "ellipsis_lines"
	case share(countAlpha(grams.words), len(grams.words)) < float64(g.MinAlphaWords):
		return text, "alpha_words"
	case g.countStopWords(text, grams.words) < g.MinStopWords:
		return text, "stop_words"
	}
	return text, g.judgeRepetition(text, grams)
}

func (g *gopher) evaluateWords(text string, words []word) string {
	count, letters, lengths, chars := 0, 0, 0, 0
	for _, w := range words {
		switch {
		case w.has&plain == 0:
			continue
		case w.has&unspaced != 0:
			letters++
		default:
			lengths++
			chars += w.chars
		}
		count++
	}
	length := share(chars, lengths)
	hashes, ellipses := strings.Count(text, "#"), strings.Count(text, "...")+strings.Count(text, "…")
	switch {
	case count < g.MinWords || count > g.MaxWords:
		return "words"
	case lengths > letters && (length < g.MinWordLength || length > g.MaxWordLength): // otherwise most words are single letters
		return "word_length"
	case share(max(hashes, ellipses), len(words)) > float64(g.MaxSymbols):
		return "symbols"
	}
	return ""
}

func countAlpha(words []word) int {
	n := 0
	for _, w := range words {
		if w.has&alpha != 0 {
			n++
		}
	}
	return n
}

// maxAround is how many bytes of punctuation may surround a stop word.
const maxAround = 16

// countStopWords returns how many different stop words are among words. Case and punctuation around a word do not matter. It stops at
// MinStopWords.
func (g *gopher) countStopWords(text string, words []word) int {
	var seen []string
	for _, stop := range g.unspaced {
		if strings.Contains(text, stop) {
			seen = append(seen, stop)
		}
	}
	for _, w := range words {
		if len(seen) >= g.MinStopWords {
			break
		}
		if len(w.text) > g.longestStop+maxAround {
			continue
		}
		bare := strings.ToLower(strings.TrimFunc(w.text, isMark))
		if slices.Contains(g.StopWords, bare) && !slices.Contains(seen, bare) {
			seen = append(seen, bare)
		}
	}
	return len(seen)
}

// isMark reports whether a character is punctuation or a symbol, of any script.
func isMark(r rune) bool { return unicode.IsPunct(r) || unicode.IsSymbol(r) }

func (g *gopher) judgeRepetition(text string, grams *ngrams) string {
	chars := utf8.RuneCountInString(text)
	lines := splitAtBreaks(text, 1)
	dupLines, dupLineChars := duplicates(lines)
	paragraphs := splitAtBreaks(strings.TrimSpace(text), 2)
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
