package transform

import (
	"errors"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/sluiceml/sluice/dsl/document"
	"github.com/sluiceml/sluice/dsl/spec"
)

// QualityFilter drops texts that do not look like prose, by the published rules of three corpora of web pages. Each rule counts its rows
// under its own name: `gopher/stop_words`, or `NAME/gopher/stop_words` if the transform has a `name`. Words are separated by white space;
// in scripts without spaces each letter is a word. Lines must end with LF, as they do after NormalizeText. A row is counted under the first
// rule that it fails, in the order of `rules` and of the keys below.
type QualityFilter struct {
	// Field is the field with the text. Null passes.
	Field string `json:"field"`
	// Rules are the sets of rules to apply, in this order.
	Rules []string `json:"rules" dsl:"literal,enum=gopher|c4|fineweb"`
	// Gopher overrides parameters of the rules of Gopher.
	Gopher GopherRules `json:"gopher,omitzero"`
	// C4 overrides parameters of the rules of C4, which also edit the text.
	C4 C4Rules `json:"c4,omitzero"`
	// FineWeb overrides parameters of the rules of FineWeb.
	FineWeb FineWebRules `json:"fineweb,omitzero"`
	ErrorKeys
}

// Check demands sets of rules, each once, and as many shares as there are rules of n-grams.
func (QualityFilter) Check(r document.Reporter, _ StepFacts, config *yaml.Node) {
	rules := document.Lookup(config, "rules")
	checkNotEmpty(r, rules)
	document.CheckTwice(r, rules)
	for _, set := range []string{"gopher", "c4", "fineweb"} {
		own := document.Lookup(config, set)
		if own != nil && rules != nil && !slices.Contains(valuesBelow(rules), set) {
			r.Errorf(document.KeyNode(config, set), "unknown-key", "add `"+set+"` to `rules`, or remove it", "`%[1]s` has no effect: it is not one of the `rules`", set)
		}
	}
	for _, pair := range [][2]string{{"min_words", "max_words"}, {"min_word_length", "max_word_length"}} {
		low, lowErr := numberAt(config, "gopher", pair[0])
		high, highErr := numberAt(config, "gopher", pair[1])
		if lowErr == nil && highErr == nil && low > high {
			r.Errorf(document.Lookup(config, "gopher", pair[0]), "range", "", "no text can have at least %g and at most %g", low, high)
		}
	}
	for key, want := range map[string]int{"max_top_ngrams": 3, "max_duplicate_ngrams": 6} {
		if n := document.Lookup(config, "gopher", key); n != nil && n.Kind == yaml.SequenceNode && len(n.Content) != want {
			r.Errorf(n, "range", "", "expected %d shares, not %d", want, len(n.Content))
		}
	}
}

// numberAt reads a number of a config; an error when there is none.
func numberAt(config *yaml.Node, path ...any) (float64, error) {
	n := document.Lookup(config, path...)
	if n == nil {
		return 0, errors.New("it is not given")
	}
	return strconv.ParseFloat(n.Value, 64)
}

// CheckRows implements RowChecker: rules about words know the language that an earlier DetectLanguage keeps.
func (QualityFilter) CheckRows(r document.Reporter, in Shape, _, config *yaml.Node) {
	rules := document.Lookup(config, "rules")
	if in.Languages == nil || rules == nil {
		return
	}
	if slices.Contains(valuesBelow(rules), "gopher") && !slices.Contains(in.Languages, "en") {
		least := document.Lookup(config, "gopher", "min_stop_words")
		if document.Lookup(config, "gopher", "stop_words") == nil && (least == nil || least.Value != "0") {
			r.Warnf(rules, "language", "write `gopher: {stop_words: [...]}` with frequent words of the language, or `min_stop_words: 0`",
				"the stop words of `gopher` are English, but the rows are in %s: nearly all will be dropped", strings.Join(in.Languages, ", "))
		}
	}
	if i := slices.IndexFunc(in.Languages, func(code string) bool { return slices.Contains(unspacedLanguages, code) }); i >= 0 {
		r.Warnf(rules, "language", "set thresholds from what `sluice show` reports for the rules, or use a program that splits it into words (Exec)",
			"%q has no spaces between words: each letter counts as a word, but the published thresholds are for English words", in.Languages[i])
	}
}

// GopherRules are those of Rae et al., "Scaling Language Models: Methods, Analysis & Insights from Training Gopher"
// (arXiv:2112.11446), appendix A.1.1; those of repetition are in its table A1. Shares of characters are of the text's.
type GopherRules struct {
	// MinWords is the smallest number of words (rule `words`); words that consist only of punctuation and symbols do not count. Default 50.
	MinWords int `json:"min_words,omitempty" dsl:"default=50,min=0"`
	// MaxWords is the largest number of words (rule `words`). Default 100000.
	MaxWords int `json:"max_words,omitempty" dsl:"default=100000,min=1"`
	// MinWordLength is the smallest mean length of a word, in characters (rule `word_length`). A text whose words are mostly in scripts
	// without spaces is not measured. Default 3.
	MinWordLength float64 `json:"min_word_length,omitempty" dsl:"default=3,min=0"`
	// MaxWordLength is the largest mean length of a word (rule `word_length`). Default 10.
	MaxWordLength float64 `json:"max_word_length,omitempty" dsl:"default=10,min=0"`
	// MaxSymbols is the largest number of #, and of ellipses, per word (rule `symbols`). Default 10%.
	MaxSymbols spec.Share `json:"max_symbols,omitempty" dsl:"default=10%"`
	// MaxBulletLines is the largest share of lines, also empty ones, that begin with the bullet • or - (rule `bullet_lines`). Default 90%.
	MaxBulletLines spec.Share `json:"max_bullet_lines,omitempty" dsl:"default=90%"`
	// MaxEllipsisLines is the largest share of lines, also empty ones, that end with an ellipsis (rule `ellipsis_lines`). Default 30%.
	MaxEllipsisLines spec.Share `json:"max_ellipsis_lines,omitempty" dsl:"default=30%"`
	// MinAlphaWords is the smallest share of words that contain a letter (rule `alpha_words`). Default 80%.
	MinAlphaWords spec.Share `json:"min_alpha_words,omitempty" dsl:"default=80%"`
	// MinStopWords is the smallest number of different stop words (rule `stop_words`). Default 2.
	MinStopWords int `json:"min_stop_words,omitempty" dsl:"default=2,min=0"`
	// StopWords of the language, in small letters; those of scripts without spaces may be anywhere in the text. Default: the, be, to, of, and, that, have, with.
	StopWords []string `json:"stop_words,omitempty"`
	// MaxDuplicateLines is the largest share of lines that repeat an earlier line (rule `duplicate_lines`). Default 30%.
	MaxDuplicateLines spec.Share `json:"max_duplicate_lines,omitempty" dsl:"default=30%"`
	// MaxDuplicateParagraphs is the same for paragraphs, which are separated by empty lines (rule `duplicate_paragraphs`). Default 30%.
	MaxDuplicateParagraphs spec.Share `json:"max_duplicate_paragraphs,omitempty" dsl:"default=30%"`
	// MaxDuplicateLineChars is the largest share of characters in duplicate lines (rule `duplicate_line_chars`). Default 20%.
	MaxDuplicateLineChars spec.Share `json:"max_duplicate_line_chars,omitempty" dsl:"default=20%"`
	// MaxDuplicateParagraphChars is the same for paragraphs (rule `duplicate_paragraph_chars`). Default 20%.
	MaxDuplicateParagraphChars spec.Share `json:"max_duplicate_paragraph_chars,omitempty" dsl:"default=20%"`
	// MaxTopNgrams are the largest shares of characters in the most frequent sequence of 2, 3 and 4 words, if it occurs at least twice
	// (rules `top_2_gram` and so on). Spaces between the words count; of several equally frequent sequences the first counts. Default [20%,
	// 18%, 16%].
	MaxTopNgrams []spec.Share `json:"max_top_ngrams,omitempty"`
	// MaxDuplicateNgrams are the largest shares of characters in sequences of 5, 6, 7, 8, 9 and 10 words that occur at least twice (rules
	// `duplicate_5_grams` and so on). Default [15%, 14%, 13%, 12%, 11%, 10%].
	MaxDuplicateNgrams []spec.Share `json:"max_duplicate_ngrams,omitempty"`
}

// C4Rules are those of Raffel et al., "Exploring the Limits of Transfer Learning with a Unified Text-to-Text Transformer"
// (arXiv:1910.10683), section 2.2, with the numbers of its last version and of the code that made the corpus; its first version
// had 3 words and 5 sentences. They leave lines out, and marks such as [1] and [citation needed], and evaluate what remains. The list
// of bad words and the removal of equal sentences of different pages are not among them.
type C4Rules struct {
	// TerminalPunctuation leaves out lines that do not end with . ! ? or their equivalents in other scripts, or with the quotation marks "
	// and ”, and lines that end with an ellipsis. Default true.
	TerminalPunctuation bool `json:"terminal_punctuation,omitempty" dsl:"default=true"`
	// MinWordsPerLine leaves out lines with fewer words. Default 5.
	MinWordsPerLine int `json:"min_words_per_line,omitempty" dsl:"default=5,min=0"`
	// MaxWordChars leaves out lines with a longer word. Default 1000.
	MaxWordChars int `json:"max_word_chars,omitempty" dsl:"default=1000,min=1"`
	// Javascript leaves out lines with the word "javascript". Default true.
	Javascript bool `json:"javascript,omitempty" dsl:"default=true"`
	// Policy leaves out lines about terms of use, privacy and cookies. Default true.
	Policy bool `json:"policy,omitempty" dsl:"default=true"`
	// LoremIpsum drops texts with the words "lorem ipsum" in a line that the rules above keep (rule `lorem_ipsum`). Default true.
	LoremIpsum bool `json:"lorem_ipsum,omitempty" dsl:"default=true"`
	// CurlyBracket drops texts with a { in such a line (rule `curly_bracket`). Default true.
	CurlyBracket bool `json:"curly_bracket,omitempty" dsl:"default=true"`
	// MinSentences is the smallest number of remaining sentences (rule `sentences`). Default 3.
	MinSentences int `json:"min_sentences,omitempty" dsl:"default=3,min=0"`
}

// FineWebRules are those of Penedo et al., "The FineWeb Datasets: Decanting the Web for the Finest Text Data at Scale"
// (arXiv:2406.17557), section 3.6, and of datatrove, the code behind it. Empty lines count only as line breaks.
type FineWebRules struct {
	// MinPunctuatedLines is the smallest share of lines that end with the end mark of a sentence, in any script (rule `punctuated_lines`).
	// Default 12%.
	MinPunctuatedLines spec.Share `json:"min_punctuated_lines,omitempty" dsl:"default=12%"`
	// ShortLine is the length of a short line, in characters. Default 30.
	ShortLine int `json:"short_line,omitempty" dsl:"default=30,min=0"`
	// MaxShortLines is the largest share of short lines (rule `short_lines`). Default 67%.
	MaxShortLines spec.Share `json:"max_short_lines,omitempty" dsl:"default=67%"`
	// MaxDuplicateChars is the largest share of characters in duplicate lines (rule `duplicate_chars`). Default 10%, as in the paper; the
	// code has 1%.
	MaxDuplicateChars spec.Share `json:"max_duplicate_chars,omitempty" dsl:"default=10%"`
	// MaxNewlines is the largest number of line breaks per word (rule `newlines`; in the code, not in the paper). Default 30%.
	MaxNewlines spec.Share `json:"max_newlines,omitempty" dsl:"default=30%"`
}

// Counts implements Counter: each rule has a name of its own.
func (QualityFilter) Counts(to Counts, label string, config *yaml.Node) {
	own := ""
	if !Is[QualityFilter](label) {
		own = label + "/"
	}
	for _, set := range valuesBelow(document.Lookup(config, "rules")) {
		to.addPrefix("rules", own+set+"/")
	}
}
