package transform

import (
	"go.yaml.in/yaml/v3"

	"github.com/sluiceml/sluice/dsl/spec"
)

// ProfileRows describes the rows that pass it, without changing them. The output `profiles["NAME"]`, under the transform's name, has the
// form of `profile`. The final rows of the dataset are always described in `profile`.
type ProfileRows struct {
	// Columns are computed columns, in addition to the fields of the rows, as in a step's `profile`.
	Columns map[string]spec.Expr `json:"columns,omitempty" dsl:"names"`
}

// Counts implements Counter: a profile has the name of the transform.
func (ProfileRows) Counts(to Counts, label string, _ *yaml.Node) { to.add("profiles", label) }
