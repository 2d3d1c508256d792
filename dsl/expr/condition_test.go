package expr

import (
	"strings"
	"testing"

	"github.com/google/cel-go/common/types"
	"github.com/google/go-cmp/cmp"
)

// TestShownIsBounded: what a gate saw is in the step's record and in history, however much it read.
func TestShownIsBounded(t *testing.T) {
	many, keys := make([]int64, 10_000), map[string]int64{}
	for i := range many {
		keys[strings.Repeat("k", i%300+1)] = int64(i)
	}
	for _, c := range []struct{ value, want any }{
		{[]int64{1, 2}, []any{1.0, 2.0}},
		{many, "a list of 10000"},
		{keys, "a map of 300"},
		{strings.Repeat("ä", 1000), strings.Repeat("ä", 500) + "…"},
		{"short", "short"},
	} {
		got := bounded(whole(types.DefaultTypeAdapter.NativeToValue(c.value)))
		if list, ok := got.([]any); ok {
			for i, n := range list {
				if n, ok := n.(int64); ok {
					list[i] = float64(n)
				}
			}
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("shown (-want +got):\n%s", diff)
		}
	}
}
