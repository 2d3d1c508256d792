package run

import (
	"testing"
	"time"
)

// The last day of a backfill counts whole, and no time that is still to come.
func TestEndOfDay(t *testing.T) {
	day := time.Date(2026, 1, 31, 0, 0, 0, 0, time.UTC)
	for now, want := range map[time.Time]time.Time{
		day.AddDate(0, 1, 0):    day.Add(24*time.Hour - time.Second),
		day.Add(3 * time.Hour):  day.Add(3 * time.Hour),
		day.Add(24 * time.Hour): day.Add(24*time.Hour - time.Second),
	} {
		if got := endOfDay(day, now); !got.Equal(want) {
			t.Errorf("at %s: %s, want %s", now, got, want)
		}
	}
}
