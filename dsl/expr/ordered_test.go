package expr

import (
	"encoding/json"
	"testing"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/traits"
)

func TestMapsWithoutTypeAreInOrder(t *testing.T) {
	ts := NewTypeSystem()
	for range 20 {
		v, err := ts.Decode(cel.DynType, json.RawMessage(`[{"e": 1, "a": 1, "d": 1, "b": 1, "c": 1}]`))
		if err != nil {
			t.Fatal(err)
		}
		var keys string
		inner := v.(traits.Lister).Get(types.Int(0)).(traits.Iterable)
		for it := inner.Iterator(); it.HasNext() == types.True; {
			keys += string(it.Next().(types.String))
		}
		if keys != "abcde" {
			t.Fatalf("the keys come as %q", keys)
		}
	}
}
