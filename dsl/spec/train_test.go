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
// promise: docs/training.md#p-deadline-start
func TestUnkeptDeadline(t *testing.T) {
	began := time.Date(2026, 3, 1, 6, 30, 0, 0, time.UTC)
	const start = 20 * time.Minute
	for _, tt := range []struct {
		name     string
		deadline Deadline
		start    time.Duration
		resumes  bool
		want     []string // parts of the error; nil: none
	}{
		{"the work is not declared", Deadline{Within: Duration(time.Minute)}, 0, false, nil},
		{"enough time", Deadline{Within: Duration(time.Hour), Work: Duration(time.Hour)}, start, false, nil},
		{"too little", Deadline{Within: Duration(time.Hour), Work: Duration(61 * time.Minute)}, start, false, []string{"less than 1h1m"}},
		{"less is left to do", Deadline{Within: Duration(time.Hour), Work: Duration(61 * time.Minute)}, start, true, nil},
		{"a time of day that may be missed", Deadline{At: "07:00", Work: Duration(time.Hour)}, time.Hour, false, nil},
		{"a time of day that ends it", Deadline{At: "07:00", Work: Duration(time.Hour), OnMiss: OnMissStop}, 0, false, []string{"less than 1h"}},
		{"nodes are ready in time", Deadline{Within: Duration(start)}, start, false, nil},
		{"nodes may take longer", Deadline{Within: Duration(19 * time.Minute)}, start, false, []string{"less than 20m", "`work` is not declared"}},
		{"nodes may take longer than the work", Deadline{Within: Duration(19 * time.Minute), Work: Duration(time.Minute)}, start, false, []string{"less than 20m"}},
		{"nodes may take longer, and less is left", Deadline{Within: Duration(19 * time.Minute)}, start, true, []string{"less than 20m"}},
		{"nodes may take until a time of day that ends it", Deadline{At: "06:40", OnMiss: OnMissStop}, start, false, []string{"less than 20m"}},
	} {
		due, err := tt.deadline.After(began)
		if err != nil {
			t.Fatal(err)
		}
		err = tt.deadline.Unkept(began, due, tt.start, tt.resumes)
		if (err != nil) != (tt.want != nil) {
			t.Errorf("%s: %v", tt.name, err)
		}
		for _, part := range tt.want {
			if err != nil && !strings.Contains(err.Error(), part) {
				t.Errorf("%s: %v, want it to say %q", tt.name, err, part)
			}
		}
	}
}

// The nodes of the fastest pool count, and on-demand before spot.
//
// promise: docs/training.md#p-deadline-start
func TestStartWithin(t *testing.T) {
	pools := map[string]Pool{
		"cloud": {EC2: &EC2Pool{}, Capacity: []string{CapacitySpot, CapacityOnDemand}}, "pods": {Kubernetes: &KubernetesPool{}},
		"spot": {Kubernetes: &KubernetesPool{}, Capacity: []string{CapacitySpot}}, "lab": {Local: &LocalPool{}},
	}
	for _, tt := range []struct {
		pool     []string
		capacity string
		want     time.Duration
	}{
		{[]string{"cloud"}, "", 20 * time.Minute},
		{[]string{"cloud", "pods"}, "", 5 * time.Minute},
		{[]string{"cloud", "spot"}, CapacityAuto, 20 * time.Minute},
		{[]string{"cloud", "spot"}, CapacitySpot, 5 * time.Minute},
		{[]string{"spot"}, "", 5 * time.Minute},
		{[]string{"cloud", "lab"}, "", 0},
		{nil, "", 0},
		{[]string{"gone"}, "", 0},
	} {
		train := Train{Placement: Placement{Pool: tt.pool, Capacity: tt.capacity}}
		if got := train.StartWithin(pools); got != tt.want {
			t.Errorf("%v, %q: %v, want %v", tt.pool, tt.capacity, got, tt.want)
		}
	}
}
