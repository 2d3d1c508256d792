package transform

import (
	"go.yaml.in/yaml/v3"

	"github.com/sluiceml/sluice/dsl/document"
	"github.com/sluiceml/sluice/dsl/spec"
)

// Deduplicate keeps one of the rows that are equal in the given fields and drops the others, or, with minhash, drops rows whose text is
// nearly that of another row. Numbers are compared by value: 1 equals 1.0. Dropped rows are counted under the transform's name. Which row
// is kept depends only on the rows, not on their order in the files.
type Deduplicate struct {
	// Method: exact (default), or minhash. With minhash a row is dropped if its text resembles that of a kept row that is earlier in the
	// order of `order_by`. Rows that are added to a dataset later, and are later in that order, therefore do not change which earlier rows
	// are kept.
	Method string `json:"method,omitempty" dsl:"literal,enum=exact|minhash"`
	// Fields that must be equal. Default: the whole row. With minhash they are required, and hold the text that is compared; null has no
	// words.
	Fields []string `json:"fields,omitempty"`
	// OrderBy is a CEL expression; the row with the lowest value is kept. Null comes last, numbers come before text, only the first 256
	// bytes of a text count, and equal values are ordered by a hash of the whole row.
	OrderBy spec.Expr `json:"order_by,omitempty"`
	// Ngram is the number of consecutive words that are compared as one sequence, with minhash. A text with fewer words counts as a whole.
	// Words are compared without case and punctuation; in scripts without spaces each letter is a word. Default 5.
	Ngram int `json:"ngram,omitempty" dsl:"default=5,min=1,max=100"`
	// Threshold is the Jaccard similarity of two texts from which on one is dropped: the share of their word sequences that they have in
	// common. Default 72%.
	Threshold spec.Share `json:"threshold,omitempty" dsl:"default=72%"`
	// Bands and `rows` determine which pairs of texts are compared: a pair with similarity s is found with the probability
	// 1-(1-s^rows)^bands. With the defaults that is 65% at the threshold, 92% at 80% and 99.9% at 90%. More bands find more pairs and need
	// more memory: about 14 bytes per row and band. Default 14.
	Bands int `json:"bands,omitempty" dsl:"default=14,min=1,max=256"`
	// Rows is the number of minima in a band. With more, fewer pairs are compared. Default 8.
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
