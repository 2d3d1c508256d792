package transform

import (
	"regexp"
	"slices"
	"strconv"

	"github.com/google/cel-go/cel"
	"go.yaml.in/yaml/v3"

	"github.com/sluiceml/sluice/dsl/document"
	"github.com/sluiceml/sluice/dsl/spec"
)

// Combine makes one row of all rows that are equal in the fields of `group_by`. The row has these fields, and those that `combine`
// computes. Of n rows n-1 are dropped, counted under the transform's name; no rows give no row. Numbers are compared by value: 1 equals
// 1.0. As in SQL's GROUP BY, nulls are a group of their own, and are ignored in computed fields, which are null if there are no other
// values.
type Combine struct {
	// GroupBy are the fields that must be equal. With [], all rows become one.
	GroupBy []string `json:"group_by" dsl:"single"`
	// Combine is the computed fields, by name. {size: sum} is short for {size: {value: row.size, fn: sum}}.
	Combine map[string]Aggregate `json:"combine"`
	// Language of the expressions: cel.
	Language string `json:"language,omitempty" dsl:"enum=cel"`
	ErrorKeys
}

// Aggregate is one value of many rows.
type Aggregate struct {
	// Value is a CEL expression over each row. Only a count of rows does not need it.
	Value spec.Expr `json:"value,omitempty"`
	// Fn: sum and mean of numbers, without rounding errors (an integer sum of more than 64 bits fails the step); min and max of bools,
	// numbers and texts, in that order; count of rows, or of values that are not null; any and all of bools; group, a list of the values.
	Fn string `json:"fn" dsl:"enum=sum|mean|min|max|count|any|all|group"`
}

// celField is a name that can stand behind a dot, but for a few words.
var celField = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// writeOutAggregates puts in place of the short forms that Beam YAML has what they are short for: {size: sum} is
// {size: {value: row.size, fn: sum}}, and {fn: {type: sum}} is {fn: sum}.
func writeOutAggregates(combine *yaml.Node) {
	if combine.Kind != yaml.MappingNode {
		return
	}
	for i := 0; i+1 < len(combine.Content); i += 2 {
		name, of := combine.Content[i], document.Unalias(combine.Content[i+1])
		if of.Kind == yaml.ScalarNode || len(of.Content) == 2 && of.Content[0].Value == "type" {
			field := "row." + name.Value
			if !celField.MatchString(name.Value) || slices.Contains([]string{"in", "true", "false", "null"}, name.Value) {
				field = "row[" + strconv.Quote(name.Value) + "]"
			}
			of = document.NewMapping(of, document.NewScalar(name, "value"), document.NewScalar(name, field), document.NewScalar(of, "fn"), of)
			combine.Content[i+1] = of
		}
		for j := 0; of.Kind == yaml.MappingNode && j+1 < len(of.Content); j += 2 {
			if fn := document.Unalias(of.Content[j+1]); of.Content[j].Value == "fn" && len(fn.Content) == 2 && fn.Content[0].Value == "type" {
				of.Content[j+1] = fn.Content[1]
			}
		}
	}
}

// valueFns are the functions that need a value.
var valueFns = []string{"sum", "mean", "min", "max", "any", "all", "group"}

// Check demands fields that are named once, something to compute, and values where they are needed.
func (Combine) Check(r document.Reporter, _ StepFacts, config *yaml.Node) {
	by := document.Lookup(config, "group_by")
	document.CheckTwice(r, by)
	taken := map[string]bool{}
	for n := range document.Scalars(by) {
		taken[n.Value] = true
	}
	combine := document.Lookup(config, "combine")
	if combine == nil || combine.Kind != yaml.MappingNode {
		return
	}
	if len(combine.Content) == 0 {
		r.Errorf(combine, "required", "to keep only the distinct values of fields, use Deduplicate", "nothing is computed here")
	}
	for name, of := range document.Entries(combine) {
		if taken[name.Value] {
			r.Errorf(name, "duplicate", "", "the rows already have the field `%s`, from `group_by`", name.Value)
		}
		if fn := document.Lookup(of, "fn"); fn != nil && slices.Contains(valueFns, fn.Value) && document.Lookup(of, "value") == nil {
			r.Errorf(of, "required", "write `value: row.FIELD`", "`%s` needs a `value`", fn.Value)
		}
	}
}

// Shape implements Shaper: rows have the fields that make a group, and those that are computed; but for counts these may be null.
func (Combine) Shape(in Shape, config *yaml.Node, _ ExprTypes) Shape {
	out := Shape{Fields: map[string]*cel.Type{}}
	for n := range document.Scalars(document.Lookup(config, "group_by")) {
		if t := in.typeOf(n.Value); t != nil {
			out = out.with(n.Value, t)
		}
	}
	for name, of := range document.Entries(config, "combine") {
		t := cel.DynType
		switch document.TextAt(of, "fn") {
		case "count":
			t = cel.IntType
		case "group":
			t = cel.ListType(cel.DynType)
		}
		out = out.with(name.Value, t)
	}
	return out
}
