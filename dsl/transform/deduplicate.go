package transform

import (
	"go.yaml.in/yaml/v3"

	"github.com/sluiceml/sluice/dsl/document"
	"github.com/sluiceml/sluice/dsl/spec"
)

// Deduplicate drops all rows but one of those that are equal in the given fields, or, by minhash, those whose text is nearly that of
// another. Numbers are equal by what they are: 1 is 1.0. The transform's name is the rule they are counted under. Which one stays depends
// on the rows alone, not on their order in the files.
type Deduplicate struct {
	// Method: exact (default), or minhash. By minhash a row is dropped when its text resembles that of a row which comes earlier in
	// the order of `order_by` and stays. So rows that are added to a dataset later, and come later in that order, change nothing about
	// those it had.
	Method string `json:"method,omitempty" dsl:"literal,enum=exact|minhash"`
	// Fields that must be equal. Default: the whole row. By minhash they hold the text that is compared, and must be given; null has no words.
	Fields []string `json:"fields,omitempty"`
	// OrderBy is a CEL expression; the row with the lowest value stays. Null comes last, numbers come before text, of text the
	// first 256 bytes count, and equal values are ordered by a hash of the whole row.
	OrderBy spec.Expr `json:"order_by,omitempty"`
	// Ngram is how many words in a row are compared as one, by minhash. A text of fewer counts as a whole. Words are compared
	// without case and punctuation; of scripts without spaces each letter is one. Default 5.
	Ngram int `json:"ngram,omitempty" dsl:"default=5,min=1,max=100"`
	// Threshold is the share of runs of words that two texts must have in common, of all that they have together, for one to be
	// dropped (their Jaccard similarity). Default 72%.
	Threshold spec.Share `json:"threshold,omitempty" dsl:"default=72%"`
	// Bands and `rows` are how pairs of texts that are worth comparing are found: a pair of similarity s is, with the
	// probability 1-(1-s^rows)^bands. With the defaults that is 65% at the threshold, 92% at 80% and 99.9% at 90%. More bands find
	// more pairs, and cost memory: some 14 bytes for each of a row. Default 14.
	Bands int `json:"bands,omitempty" dsl:"default=14,min=1,max=256"`
	// Rows is the number of minima in a band: the more, the fewer pairs are compared. Default 8.
	Rows int `json:"rows,omitempty" dsl:"default=8,min=1,max=64"`
	ErrorKeys
}

// Check demands what minhash needs, and that exact is not given what only minhash has.
func (Deduplicate) Check(r document.Reporter, _ StepFacts, config *yaml.Node) {
	fields, method := document.Lookup(config, "fields"), document.Lookup(config, "method")
	checkNotEmpty(r, fields)
	if method != nil && method.Value == "minhash" {
		if fields == nil {
			r.Errorf(method, "required", "write `fields: [text]`", "`minhash` needs the `fields` that hold the text")
		}
		return
	}
	for _, key := range []string{"ngram", "threshold", "bands", "rows"} {
		if document.Lookup(config, key) != nil {
			r.Errorf(document.KeyNode(config, key), "unknown-key", "write `method: minhash`, or remove it", "`%s` is only used by `minhash`", key)
		}
	}
}
