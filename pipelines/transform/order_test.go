package transform

import (
	"bytes"
	"cmp"
	"math"
	"math/big"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/sluiceml/sluice/dsl/expr/value"
	"github.com/sluiceml/sluice/pipelines/rows"
)

// values draws values that can be ordered, often such as are close to each other.
func values() *rapid.Generator[any] {
	near := rapid.SampledFrom([]int64{0, 1, -1, 9, 10, 1<<53 - 1, 1 << 53, 1<<53 + 1, math.MaxInt64, math.MaxInt64 - 1, math.MinInt64, math.MinInt64 + 1})
	whole := rapid.OneOf(near, rapid.Int64())
	scale := rapid.IntRange(0, 25)
	return rapid.OneOf(
		whole.AsAny(), rapid.Map(whole, func(n int64) any { return float64(n) }), rapid.Float64().AsAny(), rapid.Uint64().AsAny(),
		rapid.SampledFrom([]any{math.Inf(1), math.Inf(-1), math.NaN(), uint64(math.MaxUint64), true, false}),
		rapid.Custom(func(t *rapid.T) any { return value.NewDecimal(whole.Draw(t, "unscaled"), scale.Draw(t, "scale")) }),
		rapid.Custom(func(t *rapid.T) any {
			n := new(big.Int).Mul(big.NewInt(whole.Draw(t, "unscaled")), new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(scale.Draw(t, "more"))), nil))
			return value.BigDecimal(n, scale.Draw(t, "scale"))
		}),
		rapid.Custom(func(t *rapid.T) any {
			in := rapid.SampledFrom([]*time.Location{time.UTC, value.Local}).Draw(t, "location")
			return time.Unix(rapid.Int64Range(-62135596800, 253402300799).Draw(t, "seconds"), rapid.Int64Range(0, 999_999_999).Draw(t, "nanos")).In(in)
		}),
		rapid.Custom(func(t *rapid.T) any {
			return time.Unix(rapid.Int64Range(-700_000, 2_900_000).Draw(t, "days")*24*60*60, 0).In(value.Date)
		}),
		rapid.Map(whole, func(n int64) any { return time.Duration(n) }), rapid.StringN(0, 10, 40).AsAny(), rapid.SliceOfN(rapid.Byte(), 0, 10).AsAny(),
	)
}

// The bytes that rows are ordered by are in the order of their values, and equal values have equal bytes to compare.
func TestOrderOfValues(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := values().Draw(t, "a"), values().Draw(t, "b")
		x, err := orderBytes(a)
		y, err2 := orderBytes(b)
		if err != nil || err2 != nil {
			t.Fatal(err, err2)
		}
		want := value.Compare(a, b)
		if got := bytes.Compare(x, y); got != want && !(want == 0 && mixed(a, b)) {
			t.Fatalf("%v (%T) and %v (%T) are ordered as %d, want %d", a, a, b, b, got, want)
		}
		one, err := rows.AppendComparable(nil, a)
		two, err2 := rows.AppendComparable(nil, b)
		if err != nil || err2 != nil {
			t.Fatal(err, err2)
		}
		if same := bytes.Equal(one, two); same != (want == 0) && !mixed(a, b) {
			t.Fatalf("%v (%T) and %v (%T) are compared as %s and %s", a, a, b, b, one, two)
		}
		if cmp.Compare(value.Compare(b, a), 0) != -want {
			t.Fatalf("%v and %v have no order", a, b)
		}
	})
}

// mixed reports whether one of two numbers is a double and the other a decimal: what they are equal to depends on how they are compared.
func mixed(a, b any) bool {
	_, f := a.(float64)
	_, g := b.(float64)
	return f != g
}

// What goes from one part of a cleaning to the next is what comes out.
func TestTypedText(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v := map[string]any{"v": values().Draw(t, "v"), "in": []any{values().Draw(t, "in"), nil}}
		text, err := rows.AppendTypedValue(nil, v)
		if err != nil {
			t.Fatal(err)
		}
		again, _, err := rows.DecodeTypedValue(text)
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		twice, err := rows.AppendTypedValue(nil, again)
		if err != nil || !bytes.Equal(text, twice) {
			t.Fatalf("%s became %s, %v", text, twice, err)
		}
		got, _ := again.(map[string]any)
		if value.TypeName(got["v"]) != value.TypeName(v["v"]) || value.Compare(got["v"], v["v"]) != 0 {
			t.Fatalf("%v became %v", v["v"], got["v"])
		}
	})
}
