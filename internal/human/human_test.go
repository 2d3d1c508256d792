package human_test

import (
	"math"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/sluiceml/sluice/internal/human"
)

func TestQuantities(t *testing.T) {
	for _, c := range []struct{ got, want string }{
		{human.Duration(-time.Second), "0.0 s"},
		{human.Duration(400 * time.Millisecond), "0.4 s"},
		{human.Duration(59_940 * time.Millisecond), "59.9 s"},
		{human.Duration(59_960 * time.Millisecond), "1m 00s"},
		{human.Duration(62 * time.Second), "1m 02s"},
		{human.Duration(time.Hour - time.Millisecond), "1h 00m"},
		{human.Duration(2*time.Hour + 5*time.Minute), "2h 05m"},
		{human.Duration(76 * time.Hour), "3d 04h"},
		{human.Seconds(1.5), "1.5 s"},
		{human.Bytes(0), "0 B"},
		{human.Bytes(999), "999 B"},
		{human.Bytes(4_100), "4.1 kB"},
		{human.Bytes(9_960), "10 kB"},
		{human.Bytes(999_600), "1.0 MB"},
		{human.Bytes(41_400_000), "41 MB"},
		{human.Count(0), "0"},
		{human.Count(-1234567), "-1,234,567"},
		{human.Count(math.MinInt64), "-9,223,372,036,854,775,808"},
		{human.Number(0), "0"},
		{human.Number(0.97245), "0.9725"},
		{human.Number(0.95), "0.95"},
		{human.Number(12.345), "12.35"},
		{human.Number(6046), "6,046"},
		{human.Number(1234.56), "1,234.6"},
		{human.Number(2000.4), "2,000.4"},
		{human.Number(1999.999), "1,999.999"},
		{human.Number(-312467.3), "-312,467.3"},
		{human.Number(0.99999), "0.99999"},
		{human.Number(2.00003), "2.00003"},
		{human.Number(1 - 1e-12), "1"},
		{human.Number(0.0000123), "1.23e-05"},
		{human.Number(-0.5), "-0.5"},
		{human.Number(math.NaN()), "nan"},
		{human.Number(math.Inf(1)), "+inf"},
		{human.Percent(0.975), "97.5%"},
		{human.Value("x"), "x"},
		{human.Value(""), `""`},
		{human.Value("a\x1b\nb"), "a\uFFFD …"},
		{human.Value([]any{"x", 1}), `["x",1]`},
		{human.Value([]any{map[string]any{"f1": 0.9}, map[string]any{"f1": 0.8}}), "a list of 2"},
		{human.Value(true), "true"},
		{human.Value(nil), "nothing"},
		{human.Value(strings.Repeat("a", 100)), strings.Repeat("a", 59) + "…"},
		{human.Cut("日本語です", 10), "日本語です"},
		{human.Cut("日本語です", 9), "日本語で…"},
		{human.Cut("日本語です", 8), "日本語…"},
		{human.Cut("a🎉b", 3), "a…"},
		{human.Cut("ab", 0), ""},
		{human.Plural(1, "node"), "1 node"},
		{human.Plural(1200, "step"), "1,200 steps"},
		{human.Line("\n  a\x1b[2Jb\nc"), "a\uFFFD[2Jb"},
	} {
		if c.got != c.want {
			t.Errorf("got %q, want %q", c.got, c.want)
		}
	}
}

func TestWidth(t *testing.T) {
	for s, want := range map[string]int{"": 0, "abc": 3, "日本": 4, "ｶﾅ": 2, "한": 2, "🎉": 2, "e\u0301": 1, "✓ ◆ …": 5, "☺\uFE0F": 2, "ñ": 1} {
		if got := human.Width(s); got != want {
			t.Errorf("%q is %d cells wide, want %d", s, got, want)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		s, most := rapid.String().Draw(t, "text"), rapid.IntRange(0, 20).Draw(t, "most")
		if got := human.Width(human.Cut(s, most)); got > most {
			t.Fatalf("%d cells, want at most %d", got, most)
		}
	})
}

func TestLineIsSafe(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		for _, r := range human.Line(rapid.String().Draw(t, "text")) {
			if r < ' ' || r == 0x7f || r == 0x9b {
				t.Fatalf("control character %q", r)
			}
		}
	})
}

// A value that just misses a bound does not look as if it reached it.
func TestPrecise(t *testing.T) {
	for _, c := range []struct {
		v    any
		want string
	}{
		{0.691689, "0.691689"}, {0.949996, "0.949996"}, {0.5, "0.5"}, {float64(1392), "1,392"}, {312467.3, "312,467.3"}, {math.NaN(), "nan"}, {"eu", "eu"}, {int64(7), "7"},
	} {
		if got := human.Precise(c.v); got != c.want {
			t.Errorf("%v: %s, want %s", c.v, got, c.want)
		}
	}
}
