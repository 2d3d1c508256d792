package durable

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/temporal"

	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/fault"
)

// never is the pause before an attempt that is not made.
const never = -1

func pauses(retry spec.Retry, ends ...error) []time.Duration {
	budget := NewRetryBudget(retry.WithDefaults())
	var all []time.Duration
	for _, err := range ends {
		pause, again := budget.Again(err)
		if !again {
			pause = never
		}
		all = append(all, pause)
	}
	return all
}

func TestRetryBudget(t *testing.T) {
	disk, user := fault.New(fault.Infrastructure, "disk", nil), fault.New(fault.User, "exit code 1", nil)
	for _, tt := range []struct {
		name  string
		retry spec.Retry
		ends  []error
		want  []time.Duration
	}{
		{"by default", spec.Retry{}, []error{disk, disk, disk}, []time.Duration{5 * time.Second, 10 * time.Second, never}},
		{"the program's own, by default", spec.Retry{}, []error{user}, []time.Duration{never}},
		{"the program's own, when asked", spec.Retry{Errors: []string{fault.User}}, []error{user, disk}, []time.Duration{5 * time.Second, never}},
		{
			"up to the longest pause",
			spec.Retry{Attempts: 5, Backoff: spec.Duration(time.Minute), MaxBackoff: spec.Duration(90 * time.Second)},
			[]error{disk, disk, disk},
			[]time.Duration{time.Minute, 90 * time.Second, 90 * time.Second},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, pauses(tt.retry, tt.ends...)); diff != "" {
				t.Errorf("pauses (-want +got):\n%s", diff)
			}
		})
	}
}

// A worker that dies under a step costs the step none of its attempts, and is not replaced for ever.
func TestLostWorkersAreNotCharged(t *testing.T) {
	lost := temporal.NewTimeoutError(enums.TIMEOUT_TYPE_HEARTBEAT, nil)
	budget := NewRetryBudget(spec.Retry{Attempts: 1}.WithDefaults())
	for n := range 20 {
		if pause, again := budget.Again(lost); pause != 0 || !again || budget.Used != 0 {
			t.Fatalf("after %d lost workers: again %t after %v, %d attempts charged", n+1, again, pause, budget.Used)
		}
	}
	if _, again := budget.Again(lost); again {
		t.Error("it goes on after 21 lost workers")
	}
}
