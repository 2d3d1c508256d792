package spec

import (
	"strings"
	"testing"
	"time"
)

func TestDeadline(t *testing.T) {
	for _, tt := range []struct {
		name     string
		deadline Deadline
		began    string
		want     string
	}{
		{"within", Deadline{Within: Duration(2 * time.Hour)}, "2026-03-01T23:00:00Z", "2026-03-02T01:00:00Z"},
		{"later the same day", Deadline{At: "07:00"}, "2026-03-01T06:59:00Z", "2026-03-01T07:00:00Z"},
		{"the next day", Deadline{At: "07:00"}, "2026-03-01T07:00:00Z", "2026-03-02T07:00:00Z"},
		{"of a timezone", Deadline{At: "07:00", Timezone: "Europe/Berlin"}, "2026-03-01T23:30:00Z", "2026-03-02T06:00:00Z"},
		{"when clocks are changed", Deadline{At: "07:00", Timezone: "Europe/Berlin"}, "2026-03-28T12:00:00Z", "2026-03-29T05:00:00Z"},
		{"at an hour that the day does not have", Deadline{At: "02:30", Timezone: "Europe/Berlin"}, "2026-03-28T12:00:00Z", "2026-03-29T01:30:00Z"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			began, err := time.Parse(time.RFC3339, tt.began)
			if err != nil {
				t.Fatal(err)
			}
			got, err := tt.deadline.After(began)
			if err != nil || got.UTC().Format(time.RFC3339) != tt.want {
				t.Errorf("%v, %v, want %s", got.UTC(), err, tt.want)
			}
		})
	}
	for _, wrong := range []Deadline{{}, {At: "25:00"}, {At: "07:00", Timezone: "Europe/Belin"}} {
		if got, err := wrong.After(time.Unix(0, 0)); err == nil {
			t.Errorf("%+v: %v, want an error", wrong, got)
		}
	}
}

// promise: docs/training.md#p-deadline-impossible
func TestUnkeptDeadline(t *testing.T) {
	began := time.Date(2026, 3, 1, 6, 30, 0, 0, time.UTC)
	for _, tt := range []struct {
		name     string
		deadline Deadline
		refused  bool
	}{
		{"the work is not declared", Deadline{Within: Duration(time.Minute)}, false},
		{"enough time", Deadline{Within: Duration(time.Hour), Work: Duration(time.Hour)}, false},
		{"too little", Deadline{Within: Duration(time.Hour), Work: Duration(61 * time.Minute)}, true},
		{"a time of day that may be missed", Deadline{At: "07:00", Work: Duration(time.Hour)}, false},
		{"a time of day that ends it", Deadline{At: "07:00", Work: Duration(time.Hour), OnMiss: OnMissStop}, true},
	} {
		due, err := tt.deadline.After(began)
		if err != nil {
			t.Fatal(err)
		}
		err = tt.deadline.Unkept(began, due)
		if (err != nil) != tt.refused || err != nil && !strings.Contains(err.Error(), "less than "+time.Duration(tt.deadline.Work).String()) {
			t.Errorf("%s: %v", tt.name, err)
		}
	}
}
