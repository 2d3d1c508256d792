package rows_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/sluiceml/sluice/dsl/expr/value"
	"github.com/sluiceml/sluice/pipelines/rows"
)

func TestDecodeErrors(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{``, `the JSON ends where a value is expected`},
		{` {"a": `, `the JSON ends where a value is expected`},
		{`{"a" 1}`, `'1' where a : is expected, at byte 5`},
		{`{a: 1}`, `'a' where the name of a field is expected, at byte 1`},
		{`{"a": 1 "b"}`, `'"' where a , or the end of the object is expected, at byte 8`},
		{`[1, ]`, `']' where a value is expected, at byte 4`},
		{`[1 2]`, `'2' where a , or the end of the list is expected, at byte 3`},
		{`{} ü`, `'ü' after the JSON value, at byte 3`},
		{`01`, `'1' after the JSON value, at byte 1`},
		{`-`, `the JSON ends in a number`},
		{`1.e1`, `'e' in a number, at byte 2`},
		{`1e`, `the JSON ends in a number`},
		{`nul`, `'n' where a value is expected, at byte 0`},
		{"\"a\nb\"", `'\n' in a string, at byte 2`},
		{`"a`, `the JSON ends in a string`},
		{`"\`, `the JSON ends in a string`},
		{`"\x"`, `'x' after a \ in a string, at byte 2`},
		{`"\u12g4"`, `'1' in the four hexadecimal digits of a character, at byte 3`},
		{strings.Repeat("[", 20_000), `the JSON is nested more than 10000 deep`},
	} {
		_, err := rows.DecodeValue([]byte(c.text))
		if err == nil || err.Error() != c.want {
			t.Errorf("%.20s: got %v, want %s", c.text, err, c.want)
		}
		if lost(err) {
			t.Errorf("%.20s: %v is the error of what is JSON", c.text, err)
		}
	}
}

// lost reports whether a text was JSON, and its value could not be kept.
func lost(err error) bool {
	return errors.Is(err, rows.ErrRange) || errors.Is(err, rows.ErrRepeated) || errors.Is(err, rows.ErrSurrogate)
}

// What cannot be kept is said, and what is left returned.
func TestDecodeLoses(t *testing.T) {
	for _, c := range []struct {
		text string
		kind error
		want string
		left any
	}{
		{`18446744073709551616`, rows.ErrRange, `the number 18446744073709551616 does not fit 64 bits`, int64(math.MaxInt64)},
		{`1e400`, rows.ErrRange, `the number 1e400 does not fit 64 bits`, math.MaxFloat64},
		{`-0.01e-400`, rows.ErrRange, `the number -0.01e-400 does not fit 64 bits`, math.Copysign(0, -1)},
		{
			`{"a": 1, "b": {"c": 1, "c": 2, "d": 3}}`, rows.ErrRepeated, `the field "c" is duplicated`,
			map[string]any{"a": int64(1), "b": map[string]any{"c": int64(2), "d": int64(3)}},
		},
		{`["\ud83d", "a"]`, rows.ErrSurrogate, `\ud83d is half a character`, []any{"\uFFFD", "a"}},
		{`["\ude00x", 1e-999, "\ud83d"]`, rows.ErrRange, `the number 1e-999 does not fit 64 bits`, []any{"\uFFFDx", 0.0, "\uFFFD"}},
	} {
		left, err := rows.DecodeValue([]byte(c.text))
		if !errors.Is(err, c.kind) || err.Error() != c.want {
			t.Errorf("%s: got %v, want %s", c.text, err, c.want)
		}
		if diff := cmp.Diff(c.left, left); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.text, diff)
		}
	}
	for _, text := range []string{`0e-999`, `-0.000`, `0.0e5`, `5e-324`, `{"a": {"a": 1}}`, `"\ud83d\ude00"`} {
		if _, err := rows.DecodeValue([]byte(text)); err != nil {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// Numbers are compared by what they are, however they are written.
func TestAppendComparable(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.Int64Range(-1<<53, 1<<53).Draw(t, "n")
		whole, err := rows.AppendComparable(nil, map[string]any{"a": []any{n}})
		double, err2 := rows.AppendComparable(nil, map[string]any{"a": []any{float64(n)}})
		if err != nil || err2 != nil || !bytes.Equal(whole, double) {
			t.Fatalf("%s and %s, %v, %v", whole, double, err, err2)
		}
	})
	for _, c := range []struct {
		v    any
		want string
	}{{1.5, "1.5"}, {math.Copysign(0, -1), "0"}, {1e18, "1000000000000000000"}, {1e19, "10000000000000000000.0"}, {-9223372036854775808.0, "-9223372036854775808"}} {
		if got, err := rows.AppendComparable(nil, c.v); err != nil || string(got) != c.want {
			t.Errorf("%v is %s, %v, want %s", c.v, got, err, c.want)
		}
	}
}

func TestAppendErrors(t *testing.T) {
	for _, v := range []any{map[string]any{"a": 1}, []any{struct{}{}}} {
		if text, err := rows.AppendValue(nil, v); err == nil {
			t.Errorf("%v became %s", v, text)
		}
	}
}

// reference decodes as encoding/json does.
func reference(text []byte) (any, error) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return nil, err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("more")
	}
	return numbers(v)
}

func numbers(v any) (_ any, err error) {
	switch v := v.(type) {
	case json.Number:
		if strings.ContainsAny(string(v), ".eE") {
			return v.Float64()
		}
		return v.Int64()
	case []any:
		for i := range v {
			if v[i], err = numbers(v[i]); err != nil {
				return nil, err
			}
		}
	case map[string]any:
		for name := range v {
			if v[name], err = numbers(v[name]); err != nil {
				return nil, err
			}
		}
	}
	return v, nil
}

// checkText compares what is made of a text with what encoding/json makes of it.
func checkText(text []byte) error {
	got, err := rows.DecodeValue(text)
	want, wantErr := reference(text)
	switch {
	case errors.Is(err, rows.ErrRange):
		return nil // some of these encoding/json takes for 0
	case lost(err) && wantErr == nil:
		err = nil // what is left is what encoding/json makes of it
	case (err == nil) != (wantErr == nil):
		return fmt.Errorf("error %w, want %w", err, wantErr)
	}
	if err != nil {
		return nil //nolint:nilerr // both say so
	}
	if diff := cmp.Diff(want, got); diff != "" {
		return fmt.Errorf("decoded (-want +got):\n%s", diff)
	}
	return checkValue(got)
}

// checkValue compares what is written of a value with what encoding/json writes.
func checkValue(v any) error {
	got, err := rows.AppendValue([]byte("before"), v)
	if err != nil {
		return err
	}
	var want bytes.Buffer
	e := json.NewEncoder(&want)
	e.SetEscapeHTML(false)
	if err := e.Encode(fractions(v)); err != nil {
		return err
	}
	if diff := cmp.Diff("before"+strings.TrimSuffix(want.String(), "\n"), string(got)); diff != "" {
		return fmt.Errorf("encoded (-want +got):\n%s", diff)
	}
	return nil
}

// fractions puts what encoding/json is to write of a float64 in its place: a whole number has a fraction.
func fractions(v any) any {
	switch v := v.(type) {
	case float64:
		text, err := json.Marshal(v)
		if err == nil && !bytes.ContainsAny(text, ".e") {
			return json.RawMessage(append(text, ".0"...))
		}
	case []any:
		list := slices.Clone(v)
		for i, item := range list {
			list[i] = fractions(item)
		}
		return list
	case map[string]any:
		object := maps.Clone(v)
		for name, item := range object {
			object[name] = fractions(item)
		}
		return object
	}
	return v
}

var texts = []string{
	`{"a": 1, "b": [1.5, -0, 1e3, 1E-7, 1e21, 123456789012345678], "c": {"d": null, "e": true, "f": false}, "a": 2}`,
	`"plain" `, `"\"\\\/\b\f\n\r\t\u0000\u001f\u007f\u00e9\u2028"`, `"\ud83d\ude00 \ud83d \ude00\ud83d \ud83d\u0041 \ud83dx"`,
	"\"é\u2028\u2029 \xff\xc3( \xed\xa0\x80 \uFFFD\"", "\"12345678\xff\"", `"1234567"`, `"12345678\""`, `[]`, `{}`, "\t[ { } ,\r\n[ ] ]",
	"\"\xe2\x80", `{"":""}`, `[1,]`, `-0.0`, `0e0`, `1.0`, `"\u12"`, `"\ud83d\u12"`, "\"\x1f\"", "\"\x7f\"", `nullx`, "\xef\xbb\xbf{}",
}

func TestAsEncodingJSON(t *testing.T) {
	for _, text := range texts {
		if err := checkText([]byte(text)); err != nil {
			t.Errorf("%q: %v", text, err)
		}
	}
	// Each special byte at each place of a word.
	for c := range 256 {
		for at := range 20 {
			s := strings.Repeat("a", at) + string([]byte{byte(c)}) + strings.Repeat("b", 11)
			if err := errors.Join(checkText([]byte(`"`+s+`"`)), checkValue(s)); err != nil {
				t.Fatalf("byte %d at %d: %v", c, at, err)
			}
		}
	}
}

func TestAppendAsEncodingJSON(t *testing.T) {
	scalar := rapid.OneOf(
		rapid.Just[any](nil), rapid.Bool().AsAny(), rapid.Int64().AsAny(), rapid.Float64().AsAny(), rapid.String().AsAny(),
		rapid.Map(rapid.SliceOf(rapid.Byte()), func(b []byte) string { return string(b) }).AsAny(),
		rapid.SampledFrom([]any{1e21, 1e-6, 9.99e-7, 1e-10, 1e100, math.Copysign(0, -1), "\u2028"}),
	)
	rapid.Check(t, func(t *rapid.T) {
		v := map[string]any{
			"list":   rapid.SliceOf(scalar).Draw(t, "list"),
			"object": rapid.MapOf(rapid.String(), scalar).Draw(t, "object"),
		}
		if err := checkValue(v); err != nil {
			t.Fatal(err)
		}
	})
}

// A double that happens to be whole is one after it was written, too: else the type of a field would depend on its values.
func TestNumbersKeepTheirTypes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		for _, v := range []any{rapid.Float64().Draw(t, "double"), float64(rapid.Int32().Draw(t, "whole")), rapid.Int64().Draw(t, "int"), rapid.Uint64Min(1<<63).Draw(t, "uint")} {
			text, err := rows.AppendValue(nil, v)
			if err != nil {
				t.Fatal(err)
			}
			if got, err := rows.DecodeValue(text); err != nil || got != v {
				t.Fatalf("%v (%T) is written as %s and read as %v (%T), %v", v, v, text, got, got, err)
			}
		}
	})
}

func FuzzDecode(f *testing.F) {
	for _, text := range texts {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		if err := checkText(text); err != nil {
			t.Fatal(err)
		}
	})
}

func BenchmarkDecode(b *testing.B) {
	text := document()
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		if _, err := rows.DecodeValue(text); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkAppend(b *testing.B) {
	text := document()
	b.SetBytes(int64(len(text)))
	v, err := rows.DecodeValue(text)
	if err != nil {
		b.Fatal(err)
	}
	var to []byte
	for b.Loop() {
		if to, err = rows.AppendValue(to[:0], v); err != nil {
			b.Fatal(err)
		}
	}
}

func document() []byte {
	return fmt.Appendf(nil, `{"id": 12, "source": "site7", "text": %q}`, strings.Repeat("Some words of a text, and é once in a while.\n", 45))
}

// A value is read with the type with which it was written, and a mark in a text is no mark.
func TestTypedRoundTrip(t *testing.T) {
	times := rapid.Custom(func(t *rapid.T) any {
		at := time.Unix(rapid.Int64Range(-62e9, 250e9).Draw(t, "second"), rapid.Int64Range(0, 1e9-1).Draw(t, "nano"))
		switch in := rapid.SampledFrom([]*time.Location{time.UTC, value.Local, value.Date}).Draw(t, "location"); in {
		case value.Date:
			return at.In(in).Truncate(24 * time.Hour)
		default:
			return at.In(in)
		}
	})
	decimals := rapid.Custom(func(t *rapid.T) any {
		return value.NewDecimal(rapid.Int64().Draw(t, "unscaled"), rapid.IntRange(0, 30).Draw(t, "scale"))
	})
	scalar := rapid.OneOf(
		times, decimals, rapid.Uint64().AsAny(), rapid.Int64().AsAny(), rapid.Float64().AsAny(), rapid.SliceOf(rapid.Byte()).AsAny(), rapid.String().AsAny(),
		rapid.Map(rapid.Int64(), func(n int64) time.Duration { return time.Duration(n) }).AsAny(),
		rapid.SampledFrom([]any{nil, true, math.Inf(1), math.Inf(-1), math.NaN(), `d"1.5"`, "N", time.Duration(math.MinInt64)}),
	)
	rapid.Check(t, func(t *rapid.T) {
		v := map[string]any{"list": rapid.SliceOf(scalar).Draw(t, "list"), "object": rapid.MapOf(rapid.String(), scalar).Draw(t, "object")}
		text, err := rows.AppendTypedValue(nil, v)
		if err != nil {
			t.Fatal(err)
		}
		got, typed, err := rows.DecodeTypedValue(text)
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		same := cmp.Comparer(func(a, b time.Time) bool { return a.Equal(b) && value.KindOf(a) == value.KindOf(b) })
		exact := cmp.Comparer(func(a, b value.Decimal) bool { return a.String() == b.String() })
		if diff := cmp.Diff(map[string]any(v), got, same, exact, cmpopts.EquateNaNs()); diff != "" {
			t.Fatalf("%s (-want +got):\n%s", text, diff)
		}
		if _, err := rows.DecodeValue(text); (err != nil) != typed {
			t.Fatalf("typed is %v of %s, which JSON says of: %v", typed, text, err)
		}
	})
}
