package kit

import (
	"testing"

	"github.com/sluiceml/sluice/activities/contract"
	"github.com/sluiceml/sluice/dsl"
)

// TestCodeOfRun: only what went well has the exit code 0.
func TestCodeOfRun(t *testing.T) {
	tests := []struct {
		status  dsl.Status
		errType string
		want    int
	}{
		{dsl.StatusSucceeded, "", ExitOK},
		{dsl.StatusDeclined, contract.ErrGate, ExitOK},
		{dsl.StatusSkipped, "", ExitOK}, // by its concurrency group
		{dsl.StatusFailed, contract.ErrGate, ExitGate},
		{dsl.StatusFailed, contract.ErrUser, ExitUser},
		{dsl.StatusFailed, contract.ErrPreempted, ExitPreempted},
		{dsl.StatusFailed, "", ExitInfrastructure},
		{dsl.StatusCanceled, contract.ErrCanceled, ExitCanceled},
	}
	for _, test := range tests {
		if got := CodeOfRun(contract.RunOutput{Status: test.status, ErrorType: test.errType}); got != test.want {
			t.Errorf("%s, %q: exit code %d, want %d", test.status, test.errType, got, test.want)
		}
	}
}
