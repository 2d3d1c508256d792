package kit

import (
	"testing"

	"github.com/sluiceml/sluice/activities/contract"
	"github.com/sluiceml/sluice/dsl/spec"
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
		{spec.StatusDeclined, contract.ErrGate, ExitOK},
		{spec.StatusSkipped, "", ExitOK}, // by its concurrency group
		{spec.StatusFailed, contract.ErrGate, ExitGate},
		{spec.StatusFailed, contract.ErrUser, ExitUser},
		{spec.StatusFailed, contract.ErrPreempted, ExitPreempted},
		{spec.StatusFailed, "", ExitInfrastructure},
		{spec.StatusCanceled, contract.ErrCanceled, ExitCanceled},
	}
	for _, test := range tests {
		if got := CodeOfRun(record.RunOutput{Status: test.status, ErrorType: test.errType}); got != test.want {
			t.Errorf("%s, %q: exit code %d, want %d", test.status, test.errType, got, test.want)
		}
	}
}
