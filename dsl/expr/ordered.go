package expr

import (
	"cmp"
	"encoding/json"
	"slices"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
)

// orderedMap is a map from strings that is walked through in the order of its keys. Go's order is another one each time, and so would be
// the lists and texts that expressions make of a map: the same step would have another cache key each time.
type orderedMap struct{ traits.Mapper }

// NewMap makes a map from strings that is walked through in the order of its keys.
func (ts *TypeSystem) NewMap(values map[ref.Val]ref.Val) ref.Val {
	return orderedMap{types.NewRefValMap(ts, values)}
}

// Unordered implements meter.Ordered.
func (m orderedMap) Unordered() traits.Mapper { return m.Mapper }

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

// countsMap is a map of counts by name: what was not counted is zero.
type countsMap struct {
	orderedMap
	zero ref.Val
}

// decodeCounts makes a countsMap of a map of type t, which may be nil.
func (ts *TypeSystem) decodeCounts(t *cel.Type, counts ref.Val, zero json.RawMessage) (ref.Val, error) {
	m, ok := counts.(orderedMap)
	if !ok {
		m = orderedMap{types.NewRefValMap(ts, nil)}
	}
	none, err := ts.Decode(t.Parameters()[1], zero)
	return countsMap{m, none}, err
}

func (m countsMap) Get(key ref.Val) ref.Val {
	v, _ := m.Find(key)
	return v
}

func (m countsMap) Find(key ref.Val) (ref.Val, bool) {
	if v, ok := m.orderedMap.Find(key); ok {
		return v, true
	}
	return m.zero, true
}

// NativeToValue puts the maps of values without a declared type in order, also those within others.
func (ts *TypeSystem) NativeToValue(v any) ref.Val {
	switch v := v.(type) {
	case map[string]any:
		return orderedMap{types.NewDynamicMap(ts, v)}
	case []any:
		return types.NewDynamicList(ts, v)
	}
	return ts.Registry.NativeToValue(v)
}
