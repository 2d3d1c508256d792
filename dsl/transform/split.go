package transform

import (
	"math"
	"regexp"

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

// constantKey is a key that is the same for all rows.
var constantKey = regexp.MustCompile(`^\s*(?:["']([^"']*)["']|-?[0-9.]+|true|false|null|params\.\w+)\s*$`)

// checkKey reports a key that does not tell rows apart.
func checkKey(r document.Reporter, config *yaml.Node) {
	key := document.TextAt(config, "key")
	if m := constantKey.FindStringSubmatch(key); m != nil {
		hint := "for example row.id"
		if celField.MatchString(m[1]) {
			hint = "write row." + m[1]
		}
		r.Errorf(document.Lookup(config, "key"), "row", hint, "the key `%s` is the same for all rows, so they all stay together", key)
	}
}

// Check demands that the shares of a split are the whole.
func (Split) Check(r document.Reporter, _ StepFacts, config *yaml.Node) {
	checkKey(r, config)
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
