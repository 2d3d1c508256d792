package cron

import (
	"slices"
	"strings"
	"testing"
	"time"

	schedulepb "go.temporal.io/api/schedule/v1"
	"go.temporal.io/server/service/worker/scheduler"
	"pgregory.net/rapid"
)

// Clocks are changed in Berlin at two o'clock on the last Sundays of March and October, and in New York on Sundays in the first halves of
// March and November.
func TestWhenClocksChange(t *testing.T) {
	for _, c := range []struct{ cron, zone, what string }{
		{"30 2 * * *", "Europe/Berlin", "forward, there is no 02:30"},
		{"30 2 * * 1-6", "Europe/Berlin", ""},
		{"30 2 * * 0", "Europe/Berlin", "forward, there is no 02:30"},
		{"30 2 * * 7", "America/New_York", "forward, there is no 02:30"},
		{"30 1 * * *", "America/New_York", "back, 01:30 comes twice that night, and the run starts twice"},
		{"30 2 * 10 *", "Europe/Berlin", ""},
		{"*/15 2 * 10 *", "Europe/Berlin", "back, no run starts at 02:15"},
		{"30 2 * 6,7 *", "Europe/Berlin", ""},
		{"30 2 1-24 * *", "Europe/Berlin", ""},
		{"30 2 25 3 *", "Europe/Berlin", "forward, there is no 02:30"}, // such as in 2029
		{"30 3 * * *", "Europe/Berlin", ""},
		{"30 2 * * *", "UTC", ""},
		{"30 * * * *", "UTC", ""},
		{"30 * * * *", "Europe/Berlin", "back, 02:30 comes twice that night, but a run starts only once"},
		{"30 * * * *", "America/New_York", ""},
		{"30 * * * *", "Asia/Tokyo", ""},
		{"45 2 * * *", "Australia/Adelaide", "forward, there is no 02:45"},
		{"45 1 * * *", "Australia/Adelaide", ""},
		{"45 2 * * *", "America/St_Johns", "forward, there is no 02:45"},
		{"45 1 * * 1-6", "America/St_Johns", ""},
		{"15 2 * * *", "Australia/Lord_Howe", "forward, there is no 02:15"},
		{"0 2 * * *", "Australia/Lord_Howe", "forward, there is no 02:00"},
		{"45 2 * * *", "Pacific/Chatham", "forward, there is no 02:45"},
		{"30 2 * * *", "Pacific/Chatham", ""},
		{"*/15 * * * *", "Australia/Lord_Howe", "back, 01:30 comes twice that night, but a run starts only once"},
	} {
		zone, times := zoneOf(t, c.zone), parsed(t, c.cron)
		if what, _ := times.WhenClocksChange(zone); !strings.Contains(what, c.what) || (what == "") != (c.what == "") {
			t.Errorf("%s in %s: %q, want %q", c.cron, c.zone, what, c.what)
		}
	}
}

func zoneOf(t interface{ Fatal(...any) }, name string) *time.Location {
	zone, err := time.LoadLocation(name)
	if err != nil {
		t.Fatal(err)
	}
	return zone
}

func parsed(t interface{ Fatal(...any) }, text string) Expression {
	times, err := Parse(text)
	if err != nil {
		t.Fatal(text, err.Message)
	}
	return times
}

// temporal returns the starts of an expression between two moments, as Temporal's own schedules compute them.
func temporal(t interface{ Fatal(...any) }, cron, zone string, from, to time.Time) (starts []time.Time) {
	never := func() int { return 0 }
	s, err := scheduler.NewSpecBuilder(never, never).NewCompiledSpec(&schedulepb.ScheduleSpec{CronString: []string{cron}, TimezoneName: zone})
	if err != nil {
		t.Fatal(err)
	}
	for {
		next, err := s.GetNextTime("", from)
		if err != nil {
			t.Fatal(err)
		}
		if from = next.Nominal; from.IsZero() || from.After(to) {
			return starts
		}
		starts = append(starts, from)
	}
}

// TestClocksGoBack: what docs/triggers.md and docs/decisions/open.md say of Temporal's schedules is so.
func TestClocksGoBack(t *testing.T) {
	berlin, newYork := time.Date(2026, 10, 24, 22, 30, 0, 0, time.UTC), time.Date(2026, 11, 1, 3, 45, 0, 0, time.UTC)
	for _, c := range []struct {
		cron, zone string
		from       time.Time
		want       string // in UTC, of the hours from then on
	}{
		{"30 2 * * *", "Europe/Berlin", berlin, "01:30"},
		{"30 * * * *", "Europe/Berlin", berlin, "23:30 00:30 02:30"},
		{"*/15 2 * * *", "Europe/Berlin", berlin, "01:00 02:15"},
		{"0 1-4 * * *", "Europe/Berlin", berlin, "23:00 00:00 02:00 03:00"},
		{"30 1 * * *", "America/New_York", newYork, "05:30 06:30"},
		{"30 * * * *", "America/New_York", newYork, "04:30 05:30 06:30 07:30"},
	} {
		var got []string
		for _, at := range temporal(t, c.cron, c.zone, c.from, c.from.Add(4*time.Hour+44*time.Minute)) {
			got = append(got, at.Format("15:04"))
		}
		if all := strings.Join(got, " "); all != c.want {
			t.Errorf("%s in %s: %s, want %s", c.cron, c.zone, all, c.want)
		}
	}
}

// TestNext: next agrees with Temporal around changes of clocks.
func TestNext(t *testing.T) {
	zones := []string{
		"Europe/Berlin", "Europe/London", "America/New_York", "America/Havana", "Australia/Lord_Howe", "Australia/Sydney", "Asia/Beirut",
		"America/Santiago", "America/St_Johns", "Africa/Cairo", "Pacific/Chatham",
	}
	rapid.Check(t, func(t *rapid.T) {
		field := func(name string, values ...string) string { return rapid.SampledFrom(values).Draw(t, name) }
		cron := field("minute", "0", "30", "*/15", "15,45", "59", "*", "0,1") + " " + field("hour", "*", "*/2", "0", "1", "2", "3", "23", "1-4", "0,2") + " " +
			field("day", "*", "1-24", "25-31", "5") + " " + field("month", "*", "3,4", "9-11") + " " + field("weekday", "*", "0", "1-5", "0,6")
		name := field("zone", zones...)
		zone := zoneOf(t, name)
		from := time.Date(2026, time.Month(rapid.IntRange(1, 24).Draw(t, "month of two years")), rapid.IntRange(1, 31).Draw(t, "day"),
			rapid.IntRange(0, 23).Draw(t, "hour"), rapid.IntRange(0, 59).Draw(t, "minute"), 0, 0, time.UTC)
		if _, change := from.In(zone).ZoneBounds(); !change.IsZero() && rapid.IntRange(0, 9).Draw(t, "change") > 0 { // the night before it
			from = change.Add(-time.Duration(rapid.IntRange(0, 24*60).Draw(t, "before")) * time.Minute).UTC().Truncate(time.Minute)
		}
		to := from.Add(36 * time.Hour)
		want := temporal(t, cron, name, from, to)
		var got []time.Time
		times := parsed(t, cron)
		for at := times.next(from.In(zone)); !at.IsZero() && !at.After(to); at = times.next(at) {
			got = append(got, at.UTC())
		}
		if !slices.EqualFunc(want, got, time.Time.Equal) {
			t.Fatalf("%s in %s from %s: %v, but Temporal has %v", cron, name, from, got, want)
		}
	})
}
