package deadline

import (
	"strings"
	"testing"
	"time"

	"github.com/sluiceml/sluice/dsl/spec"
)

func TestDeadline(t *testing.T) {
	for _, tt := range []struct {
		name     string
		deadline spec.Deadline
		began    string
		want     string
	}{
		{"within", spec.Deadline{Within: spec.Duration(2 * time.Hour)}, "2026-03-01T23:00:00Z", "2026-03-02T01:00:00Z"},
		{"later the same day", spec.Deadline{At: "07:00"}, "2026-03-01T06:59:00Z", "2026-03-01T07:00:00Z"},
		{"the next day", spec.Deadline{At: "07:00"}, "2026-03-01T07:00:00Z", "2026-03-02T07:00:00Z"},
		{"of a timezone", spec.Deadline{At: "07:00", Timezone: "Europe/Berlin"}, "2026-03-01T23:30:00Z", "2026-03-02T06:00:00Z"},
		{"when clocks are changed", spec.Deadline{At: "07:00", Timezone: "Europe/Berlin"}, "2026-03-28T12:00:00Z", "2026-03-29T05:00:00Z"},
		{"at an hour that the day does not have", spec.Deadline{At: "02:30", Timezone: "Europe/Berlin"}, "2026-03-28T12:00:00Z", "2026-03-29T01:30:00Z"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			began, err := time.Parse(time.RFC3339, tt.began)
			if err != nil {
				t.Fatal(err)
			}
			got, err := After(&tt.deadline, began)
			if err != nil || got.UTC().Format(time.RFC3339) != tt.want {
				t.Errorf("%v, %v, want %s", got.UTC(), err, tt.want)
			}
		})
	}
	for _, wrong := range []spec.Deadline{{}, {At: "25:00"}, {At: "07:00", Timezone: "Europe/Belin"}} {
		if got, err := After(&wrong, time.Unix(0, 0)); err == nil {
			t.Errorf("%+v: %v, want an error", wrong, got)
		}
	}
}

func TestUnkeptDeadline(t *testing.T) {
	began := time.Date(2026, 3, 1, 6, 30, 0, 0, time.UTC)
	const start = 20 * time.Minute
	for _, tt := range []struct {
		name     string
		deadline spec.Deadline
		start    time.Duration
		resumes  bool
		want     []string // parts of the error; nil: none
	}{
		{"the work is not declared", spec.Deadline{Within: spec.Duration(time.Minute)}, 0, false, nil},
		{"enough time", spec.Deadline{Within: spec.Duration(time.Hour), Work: spec.Duration(time.Hour)}, start, false, nil},
		{"too little", spec.Deadline{Within: spec.Duration(time.Hour), Work: spec.Duration(61 * time.Minute)}, start, false, []string{"can be met is 1h1m, or 1h21m where nodes take 20m"}},
		{"less is left to do", spec.Deadline{Within: spec.Duration(time.Hour), Work: spec.Duration(61 * time.Minute)}, start, true, nil},
		{"a time of day that may be missed", spec.Deadline{At: "07:00", Work: spec.Duration(time.Hour)}, time.Hour, false, nil},
		{"a time of day that ends it", spec.Deadline{At: "07:00", Work: spec.Duration(time.Hour), OnMiss: spec.OnMissStop}, 0, false, []string{"can be met is 1h"}},
		{"nodes are ready in time", spec.Deadline{Within: spec.Duration(start)}, start, false, nil},
		{"nodes may take longer", spec.Deadline{Within: spec.Duration(19 * time.Minute)}, start, false, []string{"can be met is 20m", "`work` is not declared"}},
		{"nodes may take longer than the work", spec.Deadline{Within: spec.Duration(19 * time.Minute), Work: spec.Duration(time.Minute)}, start, false, []string{"can be met is 21m"}},
		{"nodes may take longer, and less is left", spec.Deadline{Within: spec.Duration(19 * time.Minute)}, start, true, []string{"can be met is 20m", "what is left"}},
		{"nodes may take until a time of day that ends it", spec.Deadline{At: "06:40", OnMiss: spec.OnMissStop}, start, false, []string{"can be met is 20m"}},
	} {
		due, err := After(&tt.deadline, began)
		if err != nil {
			t.Fatal(err)
		}
		err = Unkept(&tt.deadline, began, due, tt.start, tt.resumes)
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
func TestStartWithin(t *testing.T) {
	pools := map[string]spec.Pool{
		"cloud": {EC2: &spec.EC2Pool{}, Capacity: []string{spec.CapacitySpot, spec.CapacityOnDemand}}, "pods": {Kubernetes: &spec.KubernetesPool{}},
		"spot": {Kubernetes: &spec.KubernetesPool{}, Capacity: []string{spec.CapacitySpot}}, "lab": {Local: &spec.LocalPool{}},
	}
	for _, tt := range []struct {
		pool     []string
		capacity string
		want     time.Duration
	}{
		{[]string{"cloud"}, "", 20 * time.Minute},
		{[]string{"cloud", "pods"}, "", 5 * time.Minute},
		{[]string{"cloud", "spot"}, spec.CapacityAuto, 20 * time.Minute},
		{[]string{"cloud", "spot"}, spec.CapacitySpot, 5 * time.Minute},
		{[]string{"spot"}, "", 5 * time.Minute},
		{[]string{"cloud", "lab"}, "", 0},
		{nil, "", 0},
		{[]string{"gone"}, "", 0},
	} {
		train := spec.Train{Placement: spec.Placement{Pool: tt.pool, Capacity: tt.capacity}}
		if got := StartWithin(&train, pools); got != tt.want {
			t.Errorf("%v, %q: %v, want %v", tt.pool, tt.capacity, got, tt.want)
		}
	}
}
