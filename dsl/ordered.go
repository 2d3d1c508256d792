package dsl

import (
	"cmp"
	"slices"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
)

// orderedMap is a map from strings that is walked through in the order of its keys. Go's order is another one each time, and so would be
// the lists and texts that expressions make of a map: the same step would have another cache key each time.
type orderedMap struct{ traits.Mapper }

func (m orderedMap) Iterator() traits.Iterator {
	var keys []ref.Val
	for it := m.Mapper.Iterator(); it.HasNext() == types.True; {
		keys = append(keys, it.Next())
	}
	slices.SortFunc(keys, func(a, b ref.Val) int {
		x, _ := a.(types.String)
		y, _ := b.(types.String)
		return cmp.Compare(x, y)
	})
	return types.NewRefValList(types.DefaultTypeAdapter, keys).Iterator()
}

// NativeToValue puts the maps of values without a declared type in order, also those within others.
func (ts *typeSystem) NativeToValue(v any) ref.Val {
	switch v := v.(type) {
	case map[string]any:
		return orderedMap{types.NewDynamicMap(ts, v)}
	case []any:
		return types.NewDynamicList(ts, v)
	}
	return ts.Registry.NativeToValue(v)
}
