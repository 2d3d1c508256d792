package transform

import (
	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"go.yaml.in/yaml/v3"

	"github.com/sluiceml/sluice/dsl/document"
)

// Explode turns a row with lists into one row for each of their elements. A row whose lists are all empty is dropped, counted under the
// transform's name. The additional rows, beyond the first, count as read, and in `rows.exploded`.
type Explode struct {
	// Fields with the lists; in the new rows each field holds one element.
	Fields []string `json:"fields" dsl:"single"`
	// CrossProduct makes a row for each combination of elements of several lists. With false there is one row for the first elements, one
	// for the second, and so on, with null where a list is shorter. Default: false; lint warns if there are several fields.
	CrossProduct bool `json:"cross_product,omitempty"`
	ErrorKeys
}

// Check demands lists to explode, each once.
func (Explode) Check(r document.Reporter, _ StepFacts, config *yaml.Node) {
	checkNotEmpty(r, document.Lookup(config, "fields"))
	fields := document.Lookup(config, "fields")
	document.CheckTwice(r, fields)
	if fields != nil && len(fields.Content) > 1 && document.Lookup(config, "cross_product") == nil {
		r.Warnf(fields, "required", "write `cross_product: false` to combine items by position, or `true` for all combinations",
			"several lists can be exploded in two ways, and Beam YAML requires you to choose one")
	}
}

// Shape implements Shaper: items stand in place of lists, and where several lists differ in length, nulls too.
func (Explode) Shape(in Shape, config *yaml.Node, _ ExprTypes) Shape {
	fields := document.Lookup(config, "fields")
	several := fields != nil && len(fields.Content) > 1
	for n := range document.Scalars(fields) {
		t := cel.DynType
		if list := in.Fields[n.Value]; list != nil && list.Kind() == types.ListKind && !several {
			t = list.Parameters()[0]
		}
		in = in.with(n.Value, t)
	}
	return in
}
