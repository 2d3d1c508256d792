package transform

import (
	"go.yaml.in/yaml/v3"

	"github.com/sluiceml/sluice/dsl/document"
	"github.com/sluiceml/sluice/dsl/spec"
)

// Sample keeps a share of the rows and drops the others, counted under the transform's name. The choice depends only on a hash of the key:
// rows with equal keys are kept or dropped together, the same rows in every run, and a smaller share is part of a larger one.
type Sample struct {
	// Fraction of the rows to keep, approximately.
	Fraction spec.Share `json:"fraction"`
	// Key is a CEL expression over the row. Default: the whole row.
	Key spec.Expr `json:"key,omitempty"`
	ErrorKeys
}

// Check demands a key that tells rows apart, and a share that leaves some and drops some.
func (Sample) Check(r document.Reporter, _ StepFacts, config *yaml.Node) {
	checkKey(r, config)
	at := document.Lookup(config, "fraction")
	if at == nil {
		return
	}
	switch share, err := spec.ParseShare(at.Value); {
	case err != nil: // reported where it stands, or an expression
	case share == 0:
		r.Errorf(at, "share", "write how many to keep, such as 10%", "no row is kept")
	case share == 1:
		r.Warnf(at, "share", "remove the transform", "all rows are kept")
	}
}
