package transform

import (
	"go.yaml.in/yaml/v3"

	"github.com/sluiceml/sluice/dsl/spec"
)

// ProfileRows describes the rows at its place among the transforms, and hands them on as they are: the output `profiles["NAME"]`, under the
// transform's name, is of the form of `profile`. What comes of a dataset's rows in the end is in `profile` anyway.
type ProfileRows struct {
	// Columns are computed from each row, beside its fields, as those of a step's `profile` are.
	Columns map[string]spec.Expr `json:"columns,omitempty" dsl:"names"`
}

// Counts implements Counter: a profile has the name of the transform.
func (ProfileRows) Counts(to Counts, label string, _ *yaml.Node) { to.add("profiles", label) }
