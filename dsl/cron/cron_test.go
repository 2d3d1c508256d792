package cron

import (
	"fmt"
	"math/bits"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestCronValues(t *testing.T) {
	values := func(ns ...int) (set uint64) {
		for _, n := range ns {
			set |= 1 << n
		}
		return set
	}
	tests := []struct {
		text  string
		field int
		want  uint64
	}{
		{"0 0 * * *", 0, values(0)}, // seconds, when they are not written
		{"1-5 * * * *", 1, values(1, 2, 3, 4, 5)},
		{"1-5/2,30 * * * *", 1, values(1, 3, 5, 30)},
		{"50/4 * * * *", 1, values(50, 54, 58)},
		{"0 0 * Feb,dec *", 4, values(2, 12)},
		{"0 0 * * 7", 5, values(0, 7)},
		{"0 0 * * su,Wednes", 5, values(0, 3)},
	}
	for _, tt := range tests {
		c, err := Parse(tt.text)
		if err != nil || c.values[tt.field] != tt.want {
			t.Errorf("%s: %b, want %b (%v)", tt.text, c.values[tt.field], tt.want, err)
		}
	}
}

// TestCronRanges: a list of ranges with steps holds exactly what counting by hand gives.
func TestCronRanges(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		i := rapid.IntRange(0, len(fields)-1).Draw(t, "field")
		f := fields[i]
		var parts []string
		var want uint64
		for range rapid.IntRange(1, 4).Draw(t, "parts") {
			low := rapid.IntRange(f.min, f.max).Draw(t, "low")
			high := rapid.IntRange(low, f.max).Draw(t, "high")
			step := rapid.IntRange(1, f.max).Draw(t, "step")
			parts = append(parts, fmt.Sprintf("%d-%d/%d", low, high, step))
			for v := low; v <= high; v += step {
				want |= 1 << v
			}
		}
		got, err := f.parse(strings.Join(parts, ","))
		if err != nil || got != want || bits.OnesCount64(got) == 0 {
			t.Fatalf("%v: %b, want %b (%v)", parts, got, want, err)
		}
	})
}

func FuzzCron(f *testing.F) {
	for _, seed := range []string{"0 3 * * *", "@daily", "*/5 1-2/3 * jan mon", "@every 5m", "TZ=UTC 1 1 1 1 1", "é,1 * * * *", "1/ * * * *"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		c, err := Parse(text)
		switch {
		case err != nil && (err.Offset < 0 || err.Offset > len([]rune(text)) || err.Message == ""):
			t.Errorf("%q: %+v", text, err)
		case err == nil && !c.comes():
			t.Errorf("%q never comes", text)
		}
	})
}
