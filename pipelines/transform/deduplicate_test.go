package transform

import (
	"math"
	"testing"

	"pgregory.net/rapid"
)

// The bytes of an order sort as the values do.
func TestOrderBytes(t *testing.T) {
	bytesOf := func(v any) string {
		b, err := orderBytes(v)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	rising := []any{
		false, true, -1e300, int64(math.MinInt64), int64(math.MinInt64 + 1), int64(-1<<53 - 1), -float64(1 << 53), int64(-5), -0.5, int64(0), 1e-9, int64(7), 7.5,
		float64(1 << 53), int64(1<<53 + 1), int64(1<<53 + 2), int64(1800000000000000001), int64(1800000000000000002), int64(math.MaxInt64 - 1), int64(math.MaxInt64), 1e300,
		"", "a", "a\x00", "b", "ü", nil,
	}
	for i := 1; i < len(rising); i++ {
		if a, b := bytesOf(rising[i-1]), bytesOf(rising[i]); a >= b {
			t.Errorf("%v does not come before %v", rising[i-1], rising[i])
		}
	}
	rapid.Check(t, func(rt *rapid.T) {
		a, b := rapid.Float64().Draw(rt, "a"), rapid.Float64().Draw(rt, "b")
		if (a < b) != (bytesOf(a) < bytesOf(b)) {
			rt.Fatalf("%v and %v sort as %x and %x", a, b, bytesOf(a), bytesOf(b))
		}
		i, j := rapid.Int64().Draw(rt, "i"), rapid.Int64().Draw(rt, "j")
		if (i < j) != (bytesOf(i) < bytesOf(j)) {
			rt.Fatalf("%v and %v sort as %x and %x", i, j, bytesOf(i), bytesOf(j))
		}
		if n := rapid.Int64Range(-1<<53, 1<<53).Draw(rt, "n"); bytesOf(n) != bytesOf(float64(n)) {
			rt.Fatalf("%d and %g sort as %x and %x", n, float64(n), bytesOf(n), bytesOf(float64(n)))
		}
	})
	if _, err := orderBytes([]any{}); err == nil {
		t.Error("a list has an order")
	}
}
