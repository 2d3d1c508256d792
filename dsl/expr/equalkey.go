package expr

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"

	"github.com/sluiceml/sluice/dsl/expr/value"
)

// compound is the key of a value that is more than one, or none of the simple ones.
type compound string

// nan is the key of a NaN, which is equal to nothing.
type nan uint64

var nans atomic.Uint64

// equalKey returns a key for a map that is the same for values that are equal in CEL: 1 and 1.0 are.
func equalKey(v ref.Val) any {
	switch v := v.(type) {
	case types.String, types.Bool, types.Int, types.Null:
		return v
	case types.Uint:
		if v <= math.MaxInt64 {
			return types.Int(v)
		}
		return v
	case types.Double:
		f := float64(v)
		switch {
		case math.IsNaN(f):
			return nan(nans.Add(1))
		case f == math.Trunc(f) && f >= math.MinInt64 && f < 1<<63:
			return types.Int(f)
		case f == math.Trunc(f) && f >= 1<<63 && f < 1<<64:
			return types.Uint(f)
		}
		return v
	case value.Decimal:
		if plain, ok := v.Plain(); ok {
			return equalKey(types.DefaultTypeAdapter.NativeToValue(plain))
		}
		return compound("decimal " + v.Reduced())
	}
	return compound(appendKey(nil, v))
}

// appendKey adds a key's bytes, with the type before and the length, so that no two ways to put values together look the same.
func appendKey(to []byte, v ref.Val) []byte {
	switch v := v.(type) {
	case types.String, types.Bool, types.Int, types.Null, types.Uint, types.Double, value.Decimal:
		key := equalKey(v)
		return appendText(to, 's', fmt.Sprintf("%T %v", key, key))
	case types.Bytes:
		return appendText(to, 'b', string(v))
	case types.Timestamp:
		return appendText(to, 't', fmt.Sprint(v.Unix(), v.Nanosecond()))
	case types.Duration:
		return appendText(to, 'd', v.Duration.String())
	case *types.Optional:
		if !v.HasValue() {
			return append(to, 'o')
		}
		return appendKey(append(to, 'O'), v.GetValue())
	case *Object:
		native, err := v.native()
		return appendText(to, 'x', v.typ.Name+fmt.Sprint(native, err))
	case traits.Lister:
		all := elements(v)
		to = binary.AppendUvarint(append(to, 'l'), uint64(len(all)))
		for _, element := range all {
			to = appendKey(to, element)
		}
		return to
	case traits.Mapper:
		var entries []string
		for it := v.Iterator(); it.HasNext() == types.True; {
			key := it.Next()
			entries = append(entries, string(appendKey(appendKey(nil, key), v.Get(key))))
		}
		slices.Sort(entries)
		return appendText(to, 'm', strings.Join(entries, ""))
	}
	return appendText(to, '?', v.Type().TypeName()+fmt.Sprint(v.Value()))
}

func appendText(to []byte, kind byte, text string) []byte {
	return append(binary.AppendUvarint(append(to, kind), uint64(len(text))), text...)
}
