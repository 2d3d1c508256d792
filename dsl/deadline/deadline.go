// Package deadline says when a training must be done, and whether it can be.
package deadline

import (
	"fmt"
	"slices"
	"time"

	"github.com/sluiceml/sluice/dsl/spec"
)

// After is the deadline of a step that begins then.
func After(d *spec.Deadline, began time.Time) (time.Time, error) {
	if d.Within > 0 {
		return began.Add(time.Duration(d.Within)), nil
	}
	at, err := time.Parse(spec.Clock, d.At)
	if err != nil {
		return time.Time{}, fmt.Errorf("the deadline is at %q, which is not a time of day such as 07:00", d.At)
	}
	zone, err := time.LoadLocation(d.Timezone)
	if err != nil {
		return time.Time{}, fmt.Errorf("the deadline's timezone: %w", err)
	}
	local := began.In(zone)
	// Dates are counted, not hours: a day on which clocks are changed has 23 or 25.
	for day := 0; ; day++ {
		due := time.Date(local.Year(), local.Month(), local.Day()+day, at.Hour(), at.Minute(), 0, 0, zone)
		if due.After(began) {
			return due, nil
		}
	}
}

// StartWithin is how long the nodes of the step take at most to be ready: those on demand of the fastest of its pools, or those on spot where
// it may buy no others.
func StartWithin(train *spec.Train, pools map[string]spec.Pool) time.Duration {
	for _, capacity := range []string{spec.CapacityOnDemand, spec.CapacitySpot} {
		if !train.Buys(capacity) {
			continue
		}
		var all []time.Duration
		for name, pool := range pools {
			if (len(train.Pool) == 0 || slices.Contains(train.Pool, name)) && slices.Contains(pool.Sells(), capacity) {
				all = append(all, pool.StartWithin())
			}
		}
		if len(all) > 0 {
			return slices.Min(all)
		}
	}
	return 0
}

// Unkept is an error when the training cannot be done in the time from then until the deadline: the work that it declares is longer, or its
// nodes may take longer to be ready, as start says. A time of day that may be missed is not one to fail for: whoever begins late is late. Of a
// training that resumes an earlier run's, less is left than its whole work.
func Unkept(d *spec.Deadline, began, due time.Time, start time.Duration, resumes bool) error {
	work, left := time.Duration(d.Work), due.Sub(began)
	switch {
	case d.Within == 0 && d.OnMiss != spec.OnMissStop:
		return nil
	case work > left && !resumes:
		return fmt.Errorf("the deadline is %v after the start, and `work` says that the training takes %v on on-demand: the shortest deadline that can be met is %v%s",
			spec.Duration(left), d.Work, d.Work, besides(work, start))
	case start > left:
		shortest, uncounted := start, ", not counting the training itself, since `work` is not declared"
		if resumes {
			uncounted = ", not counting what is left of the training"
		} else if work > 0 {
			shortest, uncounted = start+work, ""
		}
		return fmt.Errorf("the deadline is %v after the start, and nodes may take %v to be ready: the shortest deadline that can be met is %v%s",
			spec.Duration(left), spec.Duration(start), spec.Duration(shortest), uncounted)
	}
	return nil
}

// besides says how long the work takes with the start of the nodes.
func besides(work, start time.Duration) string {
	if start == 0 {
		return ""
	}
	return fmt.Sprintf(", or %v where nodes take %v to be ready", spec.Duration(work+start), spec.Duration(start))
}
