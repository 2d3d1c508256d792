package spec

import (
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
