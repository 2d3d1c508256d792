package transform

import (
	"go.yaml.in/yaml/v3"

	"github.com/sluiceml/sluice/dsl/document"
	"github.com/sluiceml/sluice/dsl/spec"
)

// Decontaminate drops rows that share a sequence of words with held-out rows, such as those of a benchmark, so that a model is not tested
// on its training data. Words are compared without case and punctuation. Dropped rows are counted under the transform's name.
type Decontaminate struct {
	// Fields of the row with text. Null never matches.
	Fields []string `json:"fields"`
	// Against are the files of the held-out rows, JSON lines like those of ReadFromJson: "${inputs.test.path}/*.jsonl". All of them must be
	// readable, with at most four million sequences of words.
	Against spec.Paths `json:"against" dsl:"single"`
	// AgainstFields hold the held-out text. Default: those of `fields`.
	AgainstFields []string `json:"against_fields,omitempty"`
	// Ngram is the number of consecutive words that a row must share to be dropped. A held-out text with fewer words only matches a text of
	// the same words, and is not found within a longer one: choose a number that few of the held-out texts are shorter than. GPT-3 took the
	// length that 5% of a benchmark's examples do not exceed, at least 8 and at most 13 (arXiv:2005.14165, appendix C). In scripts without
	// spaces each letter is a word: 13 are about 8 words of Chinese and 3 of Thai, so use more there. Default 13.
	Ngram int `json:"ngram,omitempty" dsl:"default=13,min=1,max=100"`
	ErrorKeys
}

// Check demands fields to compare, and files that something can match.
func (Decontaminate) Check(r document.Reporter, _ StepFacts, config *yaml.Node) {
	for _, key := range []string{"fields", "against_fields"} {
		checkNotEmpty(r, document.Lookup(config, key))
	}
	checkPatterns(r, document.Lookup(config, "against"), ".jsonl")
	checkFormat(r, TypeOf[ReadFromJSON](), config, document.Lookup(config, "against"))
}
