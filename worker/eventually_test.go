package worker

import (
	"testing"
	"testing/synctest"
	"time"
)

// What takes long is said, once; what does not, not.
func TestEventuallySaysWhatTakesLong(t *testing.T) {
	for _, tc := range []struct {
		asks, said int
	}{{1, 0}, {5, 0}, {30, 1}} {
		synctest.Test(t, func(t *testing.T) {
			asks, said := 0, 0
			err := eventually(t.Context(), func() { said++ }, func() (bool, error) {
				asks++
				return asks == tc.asks, nil
			})
			time.Sleep(time.Minute)
			synctest.Wait()
			if err != nil || said != tc.said {
				t.Errorf("after %d answers it was said %d times, want %d: %v", tc.asks, said, tc.said, err)
			}
		})
	}
}
