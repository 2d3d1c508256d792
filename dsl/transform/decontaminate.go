package transform

import (
	"go.yaml.in/yaml/v3"

	"github.com/sluiceml/sluice/dsl/document"
	"github.com/sluiceml/sluice/dsl/spec"
)

// Decontaminate drops rows that share words in a row with held-out rows, such as those of a benchmark, so that nothing is tested that
// was trained on. Words are compared without case and punctuation. The transform's name is the rule that rows are counted under.
type Decontaminate struct {
	// Fields of the row that hold text. Null shares nothing.
	Fields []string `json:"fields"`
	// Against are the files of the held-out rows, JSON lines like those of ReadFromJson: "${inputs.test.path}/*.jsonl". They must
	// all be readable, and hold no more than four million runs of words.
	Against spec.Paths `json:"against" dsl:"single"`
	// AgainstFields hold the held-out text. Default: those of `fields`.
	AgainstFields []string `json:"against_fields,omitempty"`
	// Ngram is how many words in a row make a row one to drop. A held-out text of fewer words counts as a whole. Of scripts without spaces
	// each letter is a word: 13 are some 8 words of Chinese and 3 of Thai, so more may be right there. Default 13.
	Ngram int `json:"ngram,omitempty" dsl:"default=13,min=1,max=100"`
	ErrorKeys
}

// Check demands fields to compare, and files that something can match.
func (Decontaminate) Check(r document.Reporter, _ StepFacts, config *yaml.Node) {
	for _, key := range []string{"fields", "against_fields"} {
		checkNotEmpty(r, document.Lookup(config, key))
	}
	checkPatterns(r, document.Lookup(config, "against"))
}
