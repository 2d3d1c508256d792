package columns_test

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/pipelines/columns"
)

type rows = []map[string]any

func of(t testing.TB, all rows) *columns.Profile {
	t.Helper()
	p := columns.NewProfile("all")
	for _, r := range all {
		if err := p.Add("all", r, nil); err != nil {
			t.Fatal(err)
		}
	}
	return p
}

func column(t testing.TB, name string, values ...any) *columns.Profile {
	t.Helper()
	var all rows
	for _, v := range values {
		all = append(all, map[string]any{name: v})
	}
	return of(t, all)
}

func encoded(t testing.TB, p *columns.Profile) string {
	t.Helper()
	text, err := json.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestSummary(t *testing.T) {
	all := rows{
		{"n": int64(1), "text": "abc", "flag": true, "list": []any{int64(1), "x"}, "void": nil},
		{"n": 2.5, "text": "äöüß", "flag": false, "list": []any{}, "void": nil},
		{"n": int64(4), "text": "abc", "flag": true},
		{"n": 4.0, "text": nil, "flag": true},
	}
	p := of(t, all)
	number := func(x float64) *float64 { return &x }
	want := spec.Profile{Columns: map[string]spec.ColumnProfile{
		"n": {
			Types: []string{"integer", "number"}, Distinct: 3, Min: number(1), Mean: number(2.875), Max: number(4), P01: number(1), P05: number(1), P25: number(1),
			P50: number(2.5), P75: number(4), P95: number(4), P99: number(4), Top: []spec.TopValue{{Value: "4", Count: 2}, {Value: "1", Count: 1}, {Value: "2.5", Count: 1}},
		},
		"text": {
			Types: []string{"string"}, Nulls: 1, Distinct: 2, Min: number(3), Mean: number(10.0 / 3), Max: number(4), P01: number(3), P05: number(3), P25: number(3),
			P50: number(3), P75: number(4), P95: number(4), P99: number(4), Top: []spec.TopValue{{Value: "abc", Count: 2}, {Value: "äöüß", Count: 1}},
		},
		"flag": {
			Types: []string{"boolean"}, Distinct: 2, Min: number(0), Mean: number(0.75), Max: number(1), P01: number(0), P05: number(0), P25: number(0),
			P50: number(1), P75: number(1), P95: number(1), P99: number(1), Top: []spec.TopValue{{Value: "true", Count: 3}, {Value: "false", Count: 1}},
		},
		"list": {
			Types: []string{"array"}, Nulls: 2, Distinct: 2, Min: number(0), Mean: number(1), Max: number(2), P01: number(0), P05: number(0), P25: number(0),
			P50: number(0), P75: number(2), P95: number(2), P99: number(2), Top: []spec.TopValue{{Value: `[1,"x"]`, Count: 1}, {Value: "[]", Count: 1}},
		},
		"void": {Types: []string{}, Nulls: 4, Top: []spec.TopValue{}},
	}}
	if diff := cmp.Diff(want, p.Summary()); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	schema, err := json.Marshal(p.Schema())
	if err != nil {
		t.Fatal(err)
	}
	const wantSchema = `{"$schema":"https://json-schema.org/draft/2020-12/schema","properties":{"flag":{"type":["boolean"]},` +
		`"list":{"type":["array"]},"n":{"type":["integer","number"]},"text":{"type":["null","string"]},"void":{"type":["null"]}},` +
		`"required":["flag","n","text"],"type":"object"}`
	if diff := cmp.Diff(wantSchema, string(schema)); diff != "" {
		t.Errorf("schema (-want +got):\n%s", diff)
	}
}

// anyValue draws what a row may hold, often the same.
func anyValue() *rapid.Generator[any] {
	return rapid.OneOf(
		rapid.Custom(func(t *rapid.T) any { return rapid.Int64().Draw(t, "int") }),
		rapid.Custom(func(t *rapid.T) any { return rapid.Int64Range(-3, 3).Draw(t, "small") }),
		rapid.Custom(func(t *rapid.T) any { return rapid.Float64().Draw(t, "float") }),
		rapid.SampledFrom([]any{0.0, math.Copysign(0, -1), int64(0), 1e15, int64(1e15)}),
		rapid.Custom(func(t *rapid.T) any { return rapid.String().Draw(t, "text") }),
		rapid.SampledFrom([]any{nil, true, false, []any{}, map[string]any{"a": "b"}, math.MaxFloat64, -math.MaxFloat64, int64(math.MinInt64)}),
	)
}

// A profile must not depend on the order of the rows, on how they were divided, or on whether a part was written down in between.
func TestOrderAndParts(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		values := rapid.SliceOf(anyValue()).Draw(rt, "values")
		if rapid.Bool().Draw(rt, "many") { // more than are counted exactly, of more magnitudes than there are buckets
			r := rand.New(rand.NewPCG(1, 2))
			for range 1200 {
				values = append(values, math.Exp(60*r.NormFloat64()))
			}
		}
		want := encoded(t, column(t, "x", values...))
		parts := rapid.IntRange(1, 5).Draw(rt, "parts")
		shuffled := rapid.Permutation(values).Draw(rt, "order")
		merged := columns.NewProfile()
		for i := range parts {
			var part []any
			for j := i; j < len(shuffled); j += parts {
				part = append(part, shuffled[j])
			}
			again, err := columns.ParseProfile([]byte(encoded(t, column(t, "x", part...))))
			if err != nil {
				rt.Fatal(err)
			}
			merged.Merge(again)
		}
		if diff := cmp.Diff(want, encoded(t, merged)); diff != "" {
			rt.Fatalf("-whole +parts:\n%s", diff)
		}
	})
}

// Quantiles are within 0.4% of the number at their place, and exact for whole numbers below 512.
func TestQuantiles(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for _, c := range []struct {
		name  string
		draw  func() float64
		error float64
	}{
		{"small", func() float64 { return float64(r.IntN(512)) }, 0},
		{"lengths", func() float64 { return math.Floor(math.Exp(6 + 0.5*r.NormFloat64())) }, 0.004},
		{"negative", func() float64 { return -1000 - 500*r.Float64() }, 0.004},
		{"wide", func() float64 { return math.Exp(20 * r.NormFloat64()) }, 0.15},
	} {
		t.Run(c.name, func(t *testing.T) {
			var values []any
			var sorted []float64
			for range 20_000 {
				x := c.draw()
				sorted = append(sorted, x)
				values = append(values, x)
			}
			slices.Sort(sorted)
			got := column(t, "x", values...).Summary().Columns["x"]
			for q, p := range map[float64]*float64{0.01: got.P01, 0.5: got.P50, 0.95: got.P95, 0.99: got.P99} {
				want := sorted[int(math.Ceil(q*20_000))-1]
				if off := math.Abs(*p-want) / math.Abs(want); off > c.error {
					t.Errorf("the quantile %v is %v, want %v: off by %.4f", q, *p, want, off)
				}
			}
		})
	}
}

// The mean is the correctly rounded one, also where adding floats one by one would lose everything.
func TestMean(t *testing.T) {
	for _, c := range []struct {
		values []any
		want   float64
	}{
		{[]any{1e300, 1.0, -1e300, int64(3)}, 1},
		{[]any{int64(math.MaxInt64), int64(math.MaxInt64), int64(math.MinInt64), int64(math.MinInt64)}, -0.5},
		{[]any{5e-324, 5e-324}, 5e-324},
		{[]any{0.1, 0.2, 0.3}, 0.2},
	} {
		if got := *column(t, "x", c.values...).Summary().Columns["x"].Mean; got != c.want {
			t.Errorf("the mean of %v is %v, want %v", c.values, got, c.want)
		}
	}
}

func TestDistinct(t *testing.T) {
	for _, n := range []int{1, 1000, 1001, 5000, 100_000} {
		var values []any
		for i := range n {
			values = append(values, fmt.Sprint("value ", i), fmt.Sprint("value ", i))
		}
		got := column(t, "x", values...).Summary().Columns["x"]
		if n <= 1000 && got.Distinct != int64(n) {
			t.Errorf("%d different values are counted as %d", n, got.Distinct)
		}
		if off := math.Abs(float64(got.Distinct)-float64(n)) / float64(n); off > 0.05 { // three standard errors
			t.Errorf("%d different values are estimated as %d", n, got.Distinct)
		}
		if (len(got.Top) == 0) != (n > 1000) {
			t.Errorf("%d different values: %d are in top", n, len(got.Top))
		}
	}
}

func TestComputed(t *testing.T) {
	p := columns.NewProfile("all")
	if err := p.Add("all", map[string]any{"text": "abc", "n": int64(9)}, map[string]any{"len": int64(3), "n": nil}); err != nil {
		t.Fatal(err)
	}
	got := p.Summary().Columns
	if *got["len"].Mean != 3 || got["n"].Nulls != 1 || *got["text"].Mean != 3 {
		t.Errorf("got %+v", got)
	}
	properties := p.Schema()["properties"].(map[string]any)
	if diff := cmp.Diff(map[string]any{"text": map[string]any{"type": []string{"string"}}}, properties); diff != "" {
		t.Errorf("schema (-want +got):\n%s", diff)
	}
}

func TestTooManyColumns(t *testing.T) {
	row := map[string]any{}
	for i := range columns.MaxColumns + 1 {
		row[fmt.Sprint(i)] = nil
	}
	if err := columns.NewProfile().Add("all", row, nil); err == nil {
		t.Error("no error")
	}
}

// FuzzParse: whatever a profile's file holds, it is read or refused.
func FuzzParse(f *testing.F) {
	f.Add(encoded(f, column(f, "x", "a", int64(1), 2.5, nil)))
	f.Add(`{"columns": {"x": {"sum": "1e99999999999"}}}`)
	f.Add(`{"columns": {"x": null}}`)
	f.Fuzz(func(_ *testing.T, text string) {
		p, err := columns.ParseProfile([]byte(text))
		if err != nil {
			return
		}
		p.Summary()
		p.Drift(p)
		p.SchemaChange(p)
	})
}

func BenchmarkAdd(b *testing.B) {
	var all rows
	r := rand.New(rand.NewPCG(1, 2))
	for i := range 10_000 {
		all = append(all, map[string]any{"id": int64(i), "score": r.Float64(), "text": fmt.Sprintf("%0*d", 1000+r.IntN(2000), i), "label": i%2 == 0})
	}
	p := columns.NewProfile("all")
	for i := 0; b.Loop(); i++ {
		if err := p.Add("all", all[i%len(all)], nil); err != nil {
			b.Fatal(err)
		}
	}
}
