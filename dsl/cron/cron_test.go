package cron

import (
	"fmt"
	"math/bits"
	"strings"
	"testing"
	"time"

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

// Clocks are changed in Berlin at two o'clock on the last Sundays of March and October, and in New York on Sundays in the first halves of
// March and November.
func TestAmongSkipped(t *testing.T) {
	for _, c := range []struct {
		cron, zone, clock string
		twice             bool
	}{
		{cron: "30 2 * * *", zone: "Europe/Berlin", clock: "02:30"},
		{cron: "30 2 * * 1-6", zone: "Europe/Berlin"},
		{cron: "30 2 * * 0", zone: "Europe/Berlin", clock: "02:30"},
		{cron: "30 2 * * 7", zone: "America/New_York", clock: "02:30"},
		{cron: "30 1 * * *", zone: "America/New_York", clock: "01:30", twice: true},
		{cron: "30 2 * 10 *", zone: "Europe/Berlin", clock: "02:30", twice: true},
		{cron: "30 2 * 6,7 *", zone: "Europe/Berlin"},
		{cron: "30 2 1-24 * *", zone: "Europe/Berlin"},
		{cron: "30 2 25 3 *", zone: "Europe/Berlin", clock: "02:30"}, // such as in 2029
		{cron: "30 3 * * *", zone: "Europe/Berlin"},
		{cron: "30 2 * * *", zone: "UTC"},
		{cron: "30 * * * *", zone: "Europe/Berlin"},
	} {
		zone, err := time.LoadLocation(c.zone)
		if err != nil {
			t.Fatal(err)
		}
		times, bad := Parse(c.cron)
		if bad != nil {
			t.Fatal(bad)
		}
		clock, twice, found := times.AmongSkipped(zone)
		if clock != c.clock || twice != c.twice || found != (c.clock != "") {
			t.Errorf("%s in %s: %q, twice: %v, found: %v", c.cron, c.zone, clock, twice, found)
		}
	}
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
