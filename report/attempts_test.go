package report

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sluiceml/sluice/internal/fault"
	"github.com/sluiceml/sluice/store/record"
)

// An attempt that ended with its worker is not counted as one that failed.
func TestUnsuccessful(t *testing.T) {
	failed, lost := record.Attempt{ErrorType: fault.Timeout}, record.Attempt{ErrorType: fault.Infrastructure, Interrupted: true}
	type said struct{ All, Last string }
	for name, tt := range map[string]struct {
		attempts []record.Attempt
		want     said
	}{
		"failed":      {[]record.Attempt{failed}, said{"1 failed attempt", "timeout"}},
		"interrupted": {[]record.Attempt{lost, lost}, said{"2 interruptions", "interrupted"}},
		"both":        {[]record.Attempt{failed, failed, lost}, said{"2 failed attempts and 1 interruption", "interrupted"}},
	} {
		t.Run(name, func(t *testing.T) {
			got := said{Unsuccessful(tt.attempts), AttemptEnd(tt.attempts[len(tt.attempts)-1])}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("what is said (-want +got):\n%s", diff)
			}
		})
	}
}
