package transform

import (
	"math"

	"go.yaml.in/yaml/v3"

	"github.com/sluiceml/sluice/dsl/document"
	"github.com/sluiceml/sluice/dsl/spec"
)

// Split divides the rows into named parts, by a hash of the key: rows with equal keys are in the same part, and a row is in the same part
// in every run. Without a Split all rows are in the part `all`. Only a transform that writes may follow.
type Split struct {
	// Key is a CEL expression over the row.
	Key spec.Expr `json:"key"`
	// Parts by name with their shares, which add up to 100%.
	Parts map[string]spec.Share `json:"parts" dsl:"literal"`
}

// Check demands that the shares of a split are the whole.
func (Split) Check(r document.Reporter, _ StepFacts, config *yaml.Node) {
	parts := document.Lookup(config, "parts")
	if parts == nil || parts.Kind != yaml.MappingNode {
		return
	}
	var sum float64
	for name, part := range document.Entries(parts) {
		checkPlainName(r, name, "a folder of the dataset")
		share, err := spec.ParseShare(part.Value)
		if err != nil {
			return // reported where it stands
		}
		if share <= 0 {
			r.Errorf(part, "share", "", "the share of `%s` must be more than 0%%", name.Value)
		}
		sum += float64(share)
	}
	if math.Abs(sum-1) > 1e-9 {
		r.Errorf(parts, "share", "", "the parts add up to %s, not to 100%%", spec.Share(sum))
	}
}
