package kit

import (
	"testing"

	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/fault"
	"github.com/sluiceml/sluice/store/record"
)

// TestCodeOfRun: only what went well has the exit code 0.
func TestCodeOfRun(t *testing.T) {
	tests := []struct {
		status  spec.Status
		errType string
		want    int
	}{
		{spec.StatusSucceeded, "", ExitOK},
		{spec.StatusDeclined, fault.Gate, ExitOK},
		{spec.StatusSkipped, "", ExitOK}, // by its concurrency group
		{spec.StatusFailed, fault.Gate, ExitGate},
		{spec.StatusFailed, fault.User, ExitUser},
		{spec.StatusFailed, fault.Preempted, ExitPreempted},
		{spec.StatusFailed, "", ExitInfrastructure},
		{spec.StatusCanceled, fault.Canceled, ExitCanceled},
	}
	for _, test := range tests {
		if got := CodeOfRun(record.RunOutput{Status: test.status, ErrorType: test.errType}); got != test.want {
			t.Errorf("%s, %q: exit code %d, want %d", test.status, test.errType, got, test.want)
		}
	}
}
