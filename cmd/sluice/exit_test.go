package main

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
		{dsl.StatusSucceeded, "", exitOK},
		{dsl.StatusDeclined, contract.ErrGate, exitOK},
		{dsl.StatusSkipped, "", exitOK}, // by its concurrency group
		{dsl.StatusFailed, contract.ErrGate, exitGate},
		{dsl.StatusFailed, contract.ErrUser, exitUser},
		{dsl.StatusFailed, contract.ErrPreempted, exitPreempted},
		{dsl.StatusFailed, "", exitInfrastructure},
		{dsl.StatusCanceled, contract.ErrCanceled, exitCanceled},
	}
	for _, test := range tests {
		if got := codeOfRun(contract.RunOutput{Status: test.status, ErrorType: test.errType}); got != test.want {
			t.Errorf("%s, %q: exit code %d, want %d", test.status, test.errType, got, test.want)
		}
	}
}
