package transform

import "github.com/sluiceml/sluice/dsl/spec"

// Sample keeps a share of the rows and drops the others, counted under the transform's name. Which rows depends on a hash of the key
// alone: rows with equal keys stay or go together, the same ones in every run, and a smaller share is part of a larger one.
type Sample struct {
	// Fraction of the rows to keep, roughly.
	Fraction spec.Share `json:"fraction"`
	// Key is a CEL expression over the row. Default: the whole row.
	Key spec.Expr `json:"key,omitempty"`
	ErrorKeys
}
