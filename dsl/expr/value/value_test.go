package value_test

import (
	"math"
	"math/big"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/sluiceml/sluice/dsl/expr"
	"github.com/sluiceml/sluice/dsl/expr/value"
	"github.com/sluiceml/sluice/dsl/spec"
)

func decimal(t *testing.T, text string) value.Decimal {
	t.Helper()
	d, err := value.ParseDecimal(text)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func TestDecimal(t *testing.T) {
	for text, want := range map[string]string{
		"0": "0", "-0.00": "0.00", "12.50": "12.50", "1e3": "1000", "1.5e-3": "0.0015", ".5": "0.5", "-123456789012345678901234567890.10": "-123456789012345678901234567890.10",
	} {
		if got := decimal(t, text).String(); got != want {
			t.Errorf("%s is %s, want %s", text, got, want)
		}
	}
	for _, text := range []string{"", "x", "1_000", "NaN", "1e5000", "0x10", "1.2.3", "--1"} {
		if d, err := value.ParseDecimal(text); err == nil {
			t.Errorf("%q is %s", text, d)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		n, scale := rapid.Int64().Draw(t, "unscaled"), rapid.IntRange(0, 40).Draw(t, "scale")
		d := value.NewDecimal(n, scale)
		again, err := value.ParseDecimal(d.String())
		if err != nil || again.Compare(d) != 0 || again.Scale() != scale {
			t.Fatalf("%s was read as %s, %v", d, again, err)
		}
		want, _ := new(big.Rat).SetFrac(big.NewInt(n), new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(scale)), nil)).Float64()
		if got := d.Float(); got != want {
			t.Fatalf("%s is the double %v, want %v", d, got, want)
		}
		whole, fraction := d.Split()
		rest := decimal2(t, "0."+fraction+"0")
		if value.BigDecimal(whole, 0).Plus(rest).Compare(d) != 0 {
			t.Fatalf("%s is %s and %s", d, whole, fraction)
		}
		if wide, ok := d.Rescale(scale + 3); !ok || wide.Compare(d) != 0 || wide.Scale() != scale+3 {
			t.Fatalf("%s with more digits is %s", d, wide)
		}
		if narrow, ok := d.Rescale(max(0, scale-1)); ok && narrow.Compare(d) != 0 {
			t.Fatalf("%s with fewer digits is %s", d, narrow)
		}
	})
}

func decimal2(t *rapid.T, text string) value.Decimal {
	d, err := value.ParseDecimal(text)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// Numbers of different types compute with each other over rows, and times keep what they are.
func TestArithmetic(t *testing.T) {
	at := func(text string, in *time.Location) time.Time {
		got, err := value.ParseTime(text, in)
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	row := map[string]any{
		"n": int64(3), "u": uint64(1) << 63, "x": 0.5, "d": decimal(t, "9.99"), "nan": math.NaN(), "b": []byte{1, 2}, "wait": 90 * time.Minute, "s": "9.99",
		"at": at("2024-01-31T12:00:00Z", time.UTC), "local": at("2024-01-31T12:00:00.5", value.Local), "day": at("2024-01-31", value.Date),
	}
	failed := "an error"
	for text, want := range map[string]any{
		"row.n * 2": int64(6), "row.x * 2": 1.0, "row.n + row.x": 3.5, "row.d * 2": "19.98", "2 * row.d - row.d": "9.99", "row.d * row.d": "99.8001", "row.d + row.x": 10.49,
		"row.d / 2": 4.995, "-row.d": "-9.99", "row.u + 1": uint64(1)<<63 + 1, "row.u - row.u + row.n": int64(3), "row.n - 4": int64(-1), "row.u % 2": uint64(0),
		"row.d > 9.99": false, "row.d >= 9.99": true, "9.99 == row.d": true, "row.d == 9.99": true, "row.d != 9": true, "9 < row.d": true, "row.u > row.n": true,
		"row.d in [9.99, 1.0]": true, "[1].exists(n, row.d in [9.99, 1.0])": true, "[row.d].exists(d, d == 9.99)": true, "row.nan < 1.0": false, "row.nan >= 1.0": false, "row.nan == row.nan": false, `row.s in ["9.99"]`: true, "row.n in [3.0]": true, "row.d in [1, row.n]": false, "row.d < row.nan": false,
		"double(row.d)": 9.99, "int(row.d)": int64(9), "string(row.d)": "9.99", "decimal(row.s) == row.d": true, "decimal(0.1) + decimal(1)": "1.1", "row.d / 0": failed,
		`double("100_1")`: failed, `double("0x10")`: failed, `double("1e2")`: 100.0, "row.d > row.s": failed, "row.at > row.s": failed, "row.n + row.s": failed,
		"row.at": "2024-01-31T12:00:00Z", "row.local": "2024-01-31T12:00:00.5", "row.day": "2024-01-31", "string(row.day)": "2024-01-31",
		`row.day + duration("1h")`: "2024-01-31T01:00:00", `row.day + duration("24h")`: "2024-02-01T00:00:00", `row.at - duration("12h")`: "2024-01-31T00:00:00Z",
		"row.at - row.day": 12 * time.Hour, "row.day < row.at": true, "row.local.getFullYear()": int64(2024), "timestamp(row.at) == row.at": true,
		`sets.contains([decimal("9.990"), decimal("2")], [row.d])`: true, `sets.intersects([9.99], [row.d])`: true, `sets.contains([1, row.d], [decimal("1.0"), 9.99])`: true,
		`[row.d, decimal("9.990"), 9.99].distinct().size()`: int64(1), `[[decimal("1.50")], [decimal("1.5")]].distinct().size()`: int64(1),
		"row.wait": 90 * time.Minute, `row.wait + duration("30m")`: 2 * time.Hour, "size(row.b)": int64(2), "row.d + 5u": "14.99", "row.d * 0.1": 0.9990000000000001,
	} {
		p, err := expr.CompileRow(spec.Expr(text), nil)
		if err != nil {
			if want != failed { // what is constant is computed when it is compiled
				t.Errorf("%s: %v", text, err)
			}
			continue
		}
		got, err := p.Eval(row)
		if err != nil {
			got = failed
		}
		switch v := got.(type) {
		case value.Decimal, time.Time:
			got, _ = value.Text(v)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: %v (-want +got):\n%s", text, err, diff)
		}
	}
}

// What a program leaves as it was keeps its type.
func TestRestore(t *testing.T) {
	day, err := value.ParseTime("2024-01-31", value.Date)
	if err != nil {
		t.Fatal(err)
	}
	before := map[string]any{
		"d": decimal(t, "1.50"), "day": day, "b": []byte{1}, "nan": math.NaN(), "u": uint64(7), "x": 2.0, "wait": time.Second, "in": []any{map[string]any{"d": decimal(t, "2")}}, "s": "a",
	}
	after, _ := value.JSON(before).(map[string]any)
	after["x"], after["u"] = int64(2), int64(7) // as many programs write them
	value.Restore(before, after)
	for name, v := range before {
		if is := value.TypeName(after[name]); is != value.TypeName(v) {
			t.Errorf("%s is of type %s, and was %s", name, is, value.TypeName(v))
		}
	}
	changed := map[string]any{"d": "2.75", "day": "2024-02-30", "b": "AgI=", "u": int64(-1), "s": "2024-01-31"}
	value.Restore(before, changed)
	want := map[string]any{"d": "decimal", "day": "string", "b": "string", "u": "integer", "s": "string"}
	for name, v := range changed {
		if is := value.TypeName(v); is != want[name] {
			t.Errorf("%s is of type %s, want %s", name, is, want[name])
		}
	}
}
