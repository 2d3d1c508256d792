package run

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// TestLinger: only a process that is really waited for is told of. A reject that let the run end, and exits, is not.
func TestLinger(t *testing.T) {
	for name, test := range map[string]struct {
		others time.Duration // how long they follow
		says   bool
	}{
		"none":               {0, false},
		"one that exits":     {time.Second, false},
		"one that has a run": {time.Minute, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				var notes strings.Builder
				err := lingerUntil(t.Context(), func() (bool, error) { return time.Since(began) >= test.others, nil }, nil, &notes)
				if err != nil {
					t.Fatal(err)
				}
				if late := time.Since(began) - test.others; late > lingerEvery {
					t.Errorf("it ended %s after the others", late)
				}
				if got := strings.Count(notes.String(), "still executing runs"); got > 1 || (got == 1) != test.says {
					t.Errorf("it says %q", notes.String())
				}
			})
		})
	}
}
