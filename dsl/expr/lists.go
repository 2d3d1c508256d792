package expr

import (
	"errors"
	"slices"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
	"github.com/google/cel-go/ext"

	"github.com/sluiceml/sluice/dsl/expr/meter"
)

// maxRange is the longest list that lists.range makes.
const maxRange = 1_000_000

// lists are the functions of lists and sets of CEL's extensions. Of those that compare all elements with all others there, here are
// ones that take an element once.
func lists() []cel.EnvOption {
	element := cel.TypeParamType("T")
	list := cel.ListType(element)
	var sorts, sortsBy []cel.FunctionOpt
	for _, t := range []*cel.Type{
		cel.IntType, cel.UintType, cel.DoubleType, cel.BoolType, cel.DurationType, cel.TimestampType, cel.StringType, cel.BytesType,
	} {
		sorts = append(sorts, cel.MemberOverload("list_"+t.TypeName()+"_sort", []*cel.Type{cel.ListType(t)}, cel.ListType(t),
			cel.UnaryBinding(func(v ref.Val) ref.Val { return sortBy(v, v) })))
		sortsBy = append(sortsBy, cel.Overload("sorted_by_"+t.TypeName(), []*cel.Type{list, cel.ListType(t)}, list, cel.BinaryBinding(sortBy)))
	}
	set := func(name string, holds func(a, b map[any]bool) bool) cel.EnvOption {
		return cel.Function("sets."+name, cel.Overload("list_sets_"+name+"_list", []*cel.Type{list, list}, cel.BoolType,
			cel.BinaryBinding(func(a, b ref.Val) ref.Val { return types.Bool(holds(setOf(a), setOf(b))) })))
	}
	return []cel.EnvOption{
		ext.Lists(ext.ListsVersion(1)),
		cel.Function("sort", sorts...),
		cel.Function(meter.SortedBy, sortsBy...),
		overElements("sortBy", meter.SortedBy),
		cel.Function("lists.range", cel.Overload("lists_range", []*cel.Type{cel.IntType}, cel.ListType(cel.IntType), cel.UnaryBinding(makeRange))),
		cel.Function("reverse", cel.MemberOverload("list_reverse", []*cel.Type{list}, list, cel.UnaryBinding(reverse))),
		cel.Function("distinct", cel.MemberOverload("list_distinct", []*cel.Type{list}, list, cel.UnaryBinding(distinct))),
		set("contains", containsAll),
		set("equivalent", func(a, b map[any]bool) bool { return containsAll(a, b) && containsAll(b, a) }),
		set("intersects", func(a, b map[any]bool) bool {
			for key := range a {
				if b[key] {
					return true
				}
			}
			return false
		}),
	}
}

func containsAll(set, of map[any]bool) bool {
	for key := range of {
		if !set[key] {
			return false
		}
	}
	return true
}

func setOf(list ref.Val) map[any]bool {
	set := map[any]bool{}
	for _, v := range elements(list) {
		set[equalKey(v)] = true
	}
	return set
}

func distinct(list ref.Val) ref.Val {
	seen := map[any]bool{}
	return listOf(slices.DeleteFunc(elements(list), func(v ref.Val) bool {
		key := equalKey(v)
		again := seen[key]
		seen[key] = true
		return again
	}))
}

func reverse(list ref.Val) ref.Val {
	all := elements(list)
	slices.Reverse(all)
	return listOf(all)
}

func makeRange(n ref.Val) ref.Val {
	size, _ := n.(types.Int)
	if size < 0 || size > maxRange {
		return types.NewErr("lists.range: the size must be between 0 and %d, not %d", maxRange, size)
	}
	all := make([]ref.Val, size)
	for i := range all {
		all[i] = types.Int(i)
	}
	return listOf(all)
}

// sortBy orders elements as their keys are ordered; what is equal stays in its order.
func sortBy(list, keys ref.Val) ref.Val {
	all, by := elements(list), elements(keys)
	if len(all) != len(by) {
		return types.NewErr("sort: there are %d elements and %d values to sort them by", len(all), len(by))
	}
	order := make([]int, len(all))
	for i := range order {
		order[i] = i
		if _, ok := by[i].(traits.Comparer); !ok || by[i].Type() != by[0].Type() {
			return types.WrapErr(errors.New("sort: list elements must be comparable and have the same type"))
		}
	}
	slices.SortStableFunc(order, func(i, j int) int {
		c, _ := by[i].(traits.Comparer).Compare(by[j]).(types.Int) // what does not compare, such as NaN, is equal
		return int(c)
	})
	sorted := make([]ref.Val, len(all))
	for i, at := range order {
		sorted[i] = all[at]
	}
	return listOf(sorted)
}

// elements are those of a list.
func elements(list ref.Val) []ref.Val {
	l, ok := list.(traits.Lister)
	if !ok {
		return nil
	}
	var all []ref.Val
	for it := l.Iterator(); it.HasNext() == types.True; {
		all = append(all, it.Next())
	}
	return all
}

func listOf(all []ref.Val) ref.Val { return types.NewRefValList(types.DefaultTypeAdapter, all) }
