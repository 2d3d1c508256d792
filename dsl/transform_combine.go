package dsl

import (
	"slices"

	"go.yaml.in/yaml/v3"
)

// Combine makes one row of all that are equal in the fields of `group_by`: these fields, and what `combine` computes of the others. Of n
// rows n-1 are dropped, counted under the transform's name, and of none comes none. Values are equal when they are written alike: 1 is
// not 1.0. As in SQL's GROUP BY nulls make a group of their own, and are left out of what is computed, which is null when nothing else
// is there.
type Combine struct {
	// GroupBy are the fields that must be equal. None, []: all rows make one.
	GroupBy []string `json:"group_by" dsl:"single"`
	// Combine has the fields that are computed, by name.
	Combine map[string]Aggregate `json:"combine"`
	// Language of the expressions: cel.
	Language string `json:"language,omitempty" dsl:"enum=cel"`
	ErrorKeys
}

// Aggregate is one value of many rows.
type Aggregate struct {
	// Value is a CEL expression over each of the rows. Only a count of rows goes without.
	Value Expr `json:"value,omitempty"`
	// Fn: sum and mean of numbers, without rounding errors; min and max of bools, numbers and texts, in that order; count of values that
	// are not null, or of rows; any and all of bools.
	Fn string `json:"fn" dsl:"enum=sum|mean|min|max|count|any|all"`
}

// valueFns are the functions that need a value.
var valueFns = []string{"sum", "mean", "min", "max", "any", "all"}

func (Combine) checkTransform(c *checker, _ *step, config *yaml.Node) {
	by := lookup(config, "group_by")
	c.checkTwice(by)
	taken := map[string]bool{}
	for n := range scalarsBelow(by) {
		taken[n.Value] = true
	}
	combine := lookup(config, "combine")
	if combine == nil || combine.Kind != yaml.MappingNode {
		return
	}
	if len(combine.Content) == 0 {
		c.src.errorf(combine, "required", "for the distinct values of fields alone there is Deduplicate", "nothing is computed here")
	}
	for i := 0; i+1 < len(combine.Content); i += 2 {
		name, of := combine.Content[i], combine.Content[i+1]
		if taken[name.Value] {
			c.src.errorf(name, "duplicate", "", "the rows have the field `%s` of `group_by` already", name.Value)
		}
		if fn := lookup(of, "fn"); fn != nil && slices.Contains(valueFns, fn.Value) && lookup(of, "value") == nil {
			c.src.errorf(behindAlias(of), "required", "write `value: row.FIELD`", "`%s` needs a `value`", fn.Value)
		}
	}
}
