package columns_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/pipelines/columns"
)

func near(a, b float64) bool { return math.Abs(a-b) < 1e-9 }

func normal(seed uint64, n int, mean, deviation float64) []any {
	r := rand.New(rand.NewPCG(seed, 0))
	values := make([]any, n)
	for i := range values {
		values[i] = mean + deviation*r.NormFloat64()
	}
	return values
}

// The deciles of 1 to 10 are parts of one number each, so that the figures can be worked out by hand.
func TestDriftByHand(t *testing.T) {
	var base, now []any
	for i := range 10 {
		base = append(base, int64(i+1))
		now = append(now, int64(i/2+1)) // the lower half twice, the upper not at all
	}
	got := column(t, "x", now...).Drift(column(t, "x", base...))["x"]
	psi := 5*0.1*math.Log(2) + 5*(0.0001-0.1)*math.Log(0.0001/0.1)
	js := 5*(0.1*math.Log2(0.2/0.15)+0.05*math.Log2(0.1/0.15)) + 5*0.05
	if !near(got.PSI, psi) || !near(got.JS, js) || !near(got.KS, 0.5) {
		t.Errorf("got %+v, want psi %v, js %v, ks 0.5", got, psi, js)
	}
}

func TestDriftOfCategories(t *testing.T) {
	var was, is []any
	for range 10 {
		was = append(was, "a", "a", "b", "c", nil)
		is = append(is, "a", "b", "b", "d", nil)
	}
	base, now := column(t, "x", was...), column(t, "x", is...)
	got := now.Drift(base)["x"]
	psi := -0.2*math.Log(0.5) + 0.2*math.Log(2) + 2*(0.2-0.0001)*math.Log(0.2/0.0001)
	if !near(got.PSI, psi) {
		t.Errorf("psi is %v, want %v", got.PSI, psi)
	}
	if got.KS != 0 { // all texts have one character
		t.Errorf("ks is %v, want 0", got.KS)
	}
	// Texts that come once are compared by length.
	if got := column(t, "x", "d", "e", "f").Drift(column(t, "x", "a", "b", "c"))["x"]; got != (spec.ColumnDrift{}) {
		t.Errorf("got %+v, want none", got)
	}
}

// A column of categories that gets more values is compared by the categories that it had, however many there are now.
func TestDriftOfMoreCategories(t *testing.T) {
	texts := func(first, n, times int) (list []any) {
		for i := range n {
			for range times {
				list = append(list, fmt.Sprintf("label-%04d", first+i))
			}
		}
		return list
	}
	base := column(t, "x", texts(1000, 60, 20)...)
	for _, c := range []struct {
		name   string
		now    []any
		psi    float64
		others float64
	}{
		{"some, together more than 100", append(texts(1000, 60, 20), texts(2000, 50, 6)...), 0, 0.2},
		{"more than 1,000, of which none is known", append(texts(1000, 60, 20), texts(2000, 1000, 1)...), 60 * (0.0001 - 1.0/60) * math.Log(0.0001*60), 1},
	} {
		want := c.psi + (c.others-0.0001)*math.Log(c.others/0.0001)
		if c.psi == 0 {
			want += (0.8 - 1) * math.Log(0.8) // what the 60 have less
		}
		if got := column(t, "x", c.now...).Drift(base)["x"]; !near(got.PSI, want) {
			t.Errorf("%s: psi is %v, want %v", c.name, got.PSI, want)
		}
	}
}

func TestDriftSizes(t *testing.T) {
	base := column(t, "x", normal(1, 20_000, 100, 15)...)
	for _, c := range []struct {
		name     string
		now      *columns.Profile
		min, max float64 // of PSI
	}{
		{"another sample", column(t, "x", normal(2, 20_000, 100, 15)...), 0, 0.01},
		{"a smaller sample", column(t, "x", normal(3, 1000, 100, 15)...), 0, 0.05},
		{"half a deviation", column(t, "x", normal(4, 20_000, 107.5, 15)...), 0.2, 0.35},
		{"wider", column(t, "x", normal(5, 20_000, 100, 30)...), 0.3, 2},
		{"elsewhere", column(t, "x", normal(6, 20_000, 1000, 1)...), 5, 20},
		{"half are null", column(t, "x", append(normal(7, 10_000, 100, 15), make([]any, 10_000)...)...), 1, 10},
	} {
		got := c.now.Drift(base)["x"]
		if got.PSI < c.min || got.PSI > c.max {
			t.Errorf("%s: psi is %v, want %v to %v", c.name, got.PSI, c.min, c.max)
		}
	}
	shifted := column(t, "x", normal(4, 20_000, 107.5, 15)...).Drift(base)["x"]
	if math.Abs(shifted.KS-0.197) > 0.02 { // 2*Phi(0.25) - 1
		t.Errorf("ks is %v, want about 0.197", shifted.KS)
	}
}

// Nothing drifts from itself; the divergence is symmetric where the parts are the same; all figures are numbers within their bounds.
func TestDriftProperties(t *testing.T) {
	values := rapid.SliceOfN(anyValue(), 1, 50)
	rapid.Check(t, func(rt *rapid.T) {
		a, b := column(t, "x", values.Draw(rt, "a")...), column(t, "x", values.Draw(rt, "b")...)
		if got := a.Drift(a)["x"]; got != (spec.ColumnDrift{}) {
			rt.Errorf("drift from itself: %+v", got)
		}
		got := a.Drift(b)["x"]
		if got.PSI < 0 || math.IsNaN(got.PSI+got.JS+got.KS) || math.IsInf(got.PSI, 0) || got.JS < 0 || got.JS > 1 || got.KS < 0 || got.KS > 1 {
			rt.Errorf("out of bounds: %+v", got)
		}
		if back := b.Drift(a)["x"]; back.KS != got.KS {
			rt.Errorf("ks is %v, and %v the other way", got.KS, back.KS)
		}
	})
}

func TestNoDriftOfNothing(t *testing.T) {
	empty, full := columns.NewProfile("all"), column(t, "x", int64(1))
	if got := empty.Drift(full); len(got) != 0 {
		t.Errorf("got %v", got)
	}
	if got := column(t, "y", int64(1)).Drift(full); len(got) != 0 {
		t.Errorf("got %v", got)
	}
}

func TestSchemaChange(t *testing.T) {
	base := of(t, rows{{"same": "a", "gone": int64(1), "typed": int64(1), "void": nil, "nulls": "x"}})
	now := of(t, rows{{"same": "b", "typed": "1", "void": "filled", "nulls": nil, "new": true}, {"typed": int64(2)}})
	want := spec.SchemaChange{
		Changed: true, Added: []string{"new"}, Removed: []string{"gone"}, Retyped: []string{"typed: integer, now integer or string"},
	}
	if diff := cmp.Diff(want, now.SchemaChange(base)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if got := base.SchemaChange(base); got.Changed {
		t.Errorf("changed against itself: %+v", got)
	}
}
