package dsl

import (
	"encoding/json"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"go.yaml.in/yaml/v3"

	"github.com/sluiceml/sluice/dsl/document"
	"github.com/sluiceml/sluice/dsl/spec"
)

// Explode makes of a row with lists a row for each of their items. A row whose lists are all empty is dropped, counted under the
// transform's name. The rows that come of one, beyond the first, count as read, and in `rows.exploded`.
type Explode struct {
	// Fields that hold the lists; in the rows made of it each holds one item.
	Fields []string `json:"fields"`
	// CrossProduct makes a row for each combination of items of several lists. Default: the first items together, the second and so on,
	// with null where a list is shorter.
	CrossProduct bool `json:"cross_product,omitempty"`
	ErrorKeys
}

// Check demands lists to explode, each once.
func (Explode) Check(r document.Reporter, _ StepFacts, config *yaml.Node) {
	checkNotEmpty(r, document.Lookup(config, "fields"))
	checkTwice(r, document.Lookup(config, "fields"))
}

// Counts implements Counter.
func (Explode) Counts(to Counts, label string, _ *yaml.Node) { to.add("rules", label) }

// Sample keeps a share of the rows and drops the others, counted under the transform's name. Which rows depends on a hash of the key
// alone: rows with equal keys stay or go together, the same ones in every run, and a smaller share is part of a larger one.
type Sample struct {
	// Fraction of the rows to keep, roughly.
	Fraction spec.Share `json:"fraction"`
	// Key is a CEL expression over the row. Default: the whole row.
	Key spec.Expr `json:"key,omitempty"`
	ErrorKeys
}

// Counts implements Counter.
func (Sample) Counts(to Counts, label string, _ *yaml.Node) { to.add("rules", label) }

// AssertEqual fails the step when the rows that come to it are not these, in any order. It is for tests.
type AssertEqual struct {
	// Elements are the rows expected, at most 10000.
	Elements []json.RawMessage `json:"elements"`
}

// ErrorKeys are what all transforms have that reject rows.
type ErrorKeys struct {
	// ErrorHandling says what becomes of the rows that are rejected. Default: any number goes to the dead letter.
	ErrorHandling *ErrorHandling `json:"error_handling,omitempty"`
}

// ErrorHandling says what becomes of the rows that a transform rejects, and how many it may. One of its keys must be there.
type ErrorHandling struct {
	// Output is the name of an output for the rejected rows, which then do not go to the dead letter: rows of element, reason, message,
	// source and offset. A transform must take them, with `input: NAME.OUTPUT`.
	Output string `json:"output,omitempty" dsl:"literal"`
	// Threshold is the largest share of the rows coming to the transform that it may reject; above it the step fails. It is judged at
	// the end, and from 1000 rows on as they come, so that a hopeless run ends early: put known trouble through a Filter first.
	// Default: any number.
	Threshold *spec.Share `json:"threshold,omitempty"`
}

func checkErrorHandling(r document.Reporter, n *yaml.Node) {
	if n == nil || n.Kind != yaml.MappingNode {
		return
	}
	output := document.Lookup(n, "output")
	if output == nil && document.Lookup(n, "threshold") == nil {
		r.Errorf(n, "required", "write `output`, `threshold` or both", "there is nothing here that says how errors are handled")
	}
	checkPlainName(r, output, "an output")
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
