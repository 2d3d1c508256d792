package columns

import (
	"encoding/json"
	"fmt"
	"math"
	"math/big"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/sluiceml/sluice/dsl/expr/value"
)

// A value stands for itself in a column of a type, or it does not fit: it is never changed.
func TestPhysical(t *testing.T) {
	in := func(location *time.Location) func(string) time.Time {
		return func(text string) time.Time {
			got, err := value.ParseTime(text, location)
			if err != nil {
				t.Fatal(err)
			}
			return got
		}
	}
	at, local, date := in(time.UTC), in(value.Local), in(value.Date)
	timestamp := func(u Unit, utc bool) *Type { return &Type{Kind: Timestamp, Unit: u, UTC: utc} }
	tests := []struct {
		typ  *Type
		v    any
		want any // nil: it does not fit
	}{
		{&Type{Kind: Bool}, true, true},
		{&Type{Kind: Bool}, int64(1), nil},
		{&Type{Kind: Int, Bits: 8}, int64(-128), int64(-128)},
		{&Type{Kind: Int, Bits: 8}, int64(128), nil},
		{&Type{Kind: Int, Bits: 8, Unsigned: true}, int64(255), int64(255)},
		{&Type{Kind: Int, Bits: 8, Unsigned: true}, int64(-1), nil},
		{&Type{Kind: Int, Bits: 64, Unsigned: true}, int64(-1), nil},
		{&Type{Kind: Int, Bits: 64}, 1.0, nil},
		{&Type{Kind: Float, Bits: 64}, int64(1 << 53), float64(1 << 53)},
		{&Type{Kind: Float, Bits: 64}, int64(1<<53 + 1), nil},
		{&Type{Kind: Float, Bits: 32}, 0.5, 0.5},
		{&Type{Kind: Float, Bits: 32}, 0.1, nil},
		{&Type{Kind: Text}, "a", "a"},
		{&Type{Kind: Text}, int64(1), nil},
		{&Type{Kind: JSON}, []any{int64(1), nil}, "[1,null]"},
		{&Type{Kind: Int, Bits: 64, Unsigned: true}, uint64(math.MaxUint64), int64(-1)},
		{&Type{Kind: Int, Bits: 64}, uint64(math.MaxUint64), nil},
		{&Type{Kind: Int, Bits: 64}, uint64(7), int64(7)},
		{&Type{Kind: Text}, time.Second, "1s"},
		{&Type{Kind: Text}, value.NewDecimal(10, 1), "1.0"},
		{&Type{Kind: Bytes}, []byte{0, 0xff}, []byte{0, 0xff}},
		{&Type{Kind: Bytes}, "AP8=", nil},
		{&Type{Kind: Bytes, Size: 3}, []byte{0, 0xff}, nil},
		{&Type{Kind: UUID}, "01010101-0101-0101-0101-01010101010a", []byte{1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 10}},
		{&Type{Kind: UUID}, "01010101-0101-0101-0101-01010101010A", nil},
		{&Type{Kind: Enum, Symbols: []string{"A"}}, "A", "A"},
		{&Type{Kind: Enum, Symbols: []string{"A"}}, "B", nil},
		{timestamp(Millis, true), at("2024-02-29T12:30:01.005Z"), int64(1709209801005)},
		{timestamp(Millis, true), at("2024-02-29T12:30:01.0001Z"), nil},
		{timestamp(Millis, true), local("2024-02-29T12:30:01.005"), nil},
		{timestamp(Millis, false), at("2024-02-29T12:30:01.005Z"), nil},
		{timestamp(Millis, true), "2024-02-29T12:30:01.005Z", nil},
		{timestamp(Millis, false), local("2024-02-29T12:30:01.005"), int64(1709209801005)},
		{timestamp(Micros, true), at("0001-01-01T00:00:00Z"), int64(-62135596800000000)},
		{timestamp(Nanos, true), at("1969-12-31T23:59:59.999999999Z"), int64(-1)},
		{timestamp(Nanos, true), at("0001-01-01T00:00:00Z"), nil}, // beyond 64 bits
		{&Type{Kind: Date}, date("1969-12-31"), int64(-1)},
		{&Type{Kind: Date}, local("1969-12-31T00:00:00"), nil},
		{timestamp(Millis, false), date("1969-12-31"), nil},
		{&Type{Kind: Time, Unit: Millis}, "23:59:59.999", int64(86399999)},
		{&Type{Kind: Time, Unit: Millis}, "23:59:59.9999", nil},
		{&Type{Kind: Time, Unit: Micros}, "24:00:00", nil},
		{&Type{Kind: List, Items: &Type{Kind: Text}}, "a", nil},
		{&Type{Kind: Struct}, []any{}, nil},
	}
	for _, test := range tests {
		got, ok := test.typ.Physical(test.v)
		if diff := cmp.Diff(test.want, got); ok != (test.want != nil) || ok && diff != "" {
			t.Errorf("%v as %+v: %v, %v, want %v", test.v, *test.typ, got, ok, test.want)
		}
	}
}

// A decimal fits a column if all its digits do.
func TestDecimals(t *testing.T) {
	typ := NewDecimal(5, 2)
	for text, want := range map[string]string{
		"0.00": "0", "-0.05": "-5", "999.99": "99999", "1000.00": "", "1.0": "100", "1.000": "100", "1.001": "", "1": "100", "-999.99": "-99999", "1e2": "10000",
	} {
		d, err := value.ParseDecimal(text)
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		if n, ok := typ.Physical(d); ok {
			got = fmt.Sprint(n)
		}
		if got != want {
			t.Errorf("%q is %q, want %q", text, got, want)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		n, scale := rapid.Int64().Draw(t, "number"), rapid.IntRange(0, 30).Draw(t, "scale")
		raw, ok := NewDecimal(50, scale).Physical(value.NewDecimal(n, scale))
		if !ok || fmt.Sprint(raw) != fmt.Sprint(n) {
			t.Errorf("%d with %d digits behind the point is %v", n, scale, raw)
		}
		v, err := DecimalOf(TwosComplement(big.NewInt(n), 9), scale)
		if d, ok := v.(value.Decimal); err != nil || !ok || d.Compare(value.NewDecimal(n, scale)) != 0 || d.Scale() != scale {
			t.Errorf("%d with %d digits behind the point was read as %v, %v", n, scale, v, err)
		}
	})
}

// Whatever the order in which rows are seen, their columns have the same types; and objects are structs with the fields of all.
func TestSeen(t *testing.T) {
	row := func(text string) map[string]any {
		var v map[string]any
		if err := json.Unmarshal([]byte(text), &v); err != nil {
			t.Fatal(err)
		}
		return v
	}
	list := []map[string]any{
		row(`{"o": {"a": "x", "b": {"c": true}}, "p": {"a": 1}, "l": [{"a": "x"}], "e": {}, "m": "x"}`),
		row(`{"o": {"a": "y", "b": null}, "p": {"a": 1, "b": 2}, "l": [], "e": null, "m": [1]}`),
	}
	text, struc := &Type{Kind: Text}, func(fields map[string]*Type) *Type { return &Type{Kind: Struct, Fields: fields} }
	want := struc(map[string]*Type{
		"o": struc(map[string]*Type{"a": text, "b": struc(map[string]*Type{"c": {Kind: Bool}})}),
		"p": struc(map[string]*Type{"a": {Kind: Float, Bits: 64}, "b": {Kind: Float, Bits: 64}}), "l": {Kind: List, Items: struc(map[string]*Type{"a": text})}, "e": {Kind: JSON}, "m": {Kind: JSON},
	})
	for _, order := range [][]int{{0, 1}, {1, 0}} {
		one, two, both := Seen{}, Seen{}, Seen{}
		one.Add(list[order[0]])
		two.Add(list[order[1]])
		one.Join(two)
		both.Add(list[order[0]])
		both.Add(list[order[1]])
		for _, s := range []Seen{one, both} {
			if diff := cmp.Diff(want, s.Type(nil)); diff != "" {
				t.Errorf("rows %v (-want +got):\n%s", order, diff)
			}
		}
	}
	known := struc(map[string]*Type{"m": {Kind: Date}, "gone": {Kind: Date}})
	s := Seen{}
	s.Add(list[0])
	if got := s.Type(known); got.Fields["m"].Kind != Date || got.Fields["gone"] != nil {
		t.Errorf("with known types: %+v", got.Fields)
	}
	if diff := cmp.Diff(known, Seen{}.Type(known)); diff != "" {
		t.Errorf("without rows (-want +got):\n%s", diff)
	}
}

// Of what two files say, the columns stay in which they agree.
func TestJoin(t *testing.T) {
	struc := func(fields map[string]*Type) *Type { return &Type{Kind: Struct, Fields: fields} }
	date, text := &Type{Kind: Date}, &Type{Kind: Text}
	a := struc(map[string]*Type{"same": date, "other": date, "a": text, "in": struc(map[string]*Type{"x": date}), "list": {Kind: List, Items: text}})
	b := struc(map[string]*Type{"same": date, "other": text, "b": text, "in": struc(map[string]*Type{"x": text}), "list": {Kind: List, Items: text}})
	want := struc(map[string]*Type{
		"same": date, "other": nil, "a": text, "b": text, "in": struc(map[string]*Type{"x": nil}), "list": {Kind: List, Items: text},
	})
	if diff := cmp.Diff(want, Join(a, b)); diff != "" {
		t.Error(diff)
	}
}
