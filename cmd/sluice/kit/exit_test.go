package kit

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"go.temporal.io/sdk/temporal"

	"github.com/sluiceml/sluice/control"
	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/fault"
	"github.com/sluiceml/sluice/store"
	"github.com/sluiceml/sluice/store/record"
)

// The exit codes that only runs and errors have. They are part of the command line's contract.
const (
	exitUser      = 3
	exitTimeout   = 5
	exitBudget    = 6
	exitPreempted = 7
	exitCanceled  = 130 // as a shell has it for SIGINT
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
		{spec.StatusFailed, fault.User, exitUser},
		{spec.StatusFailed, fault.Preempted, exitPreempted},
		{spec.StatusFailed, "", ExitInfrastructure},
		{spec.StatusCanceled, fault.Canceled, exitCanceled},
	}
	for _, test := range tests {
		if got := CodeOfRun(record.RunOutput{Status: test.status, ErrorType: test.errType}); got != test.want {
			t.Errorf("%s, %q: exit code %d, want %d", test.status, test.errType, got, test.want)
		}
	}
}

// TestConclude: the exit code says what kind of thing went wrong, wherever an error was typed, and the message what did.
func TestConclude(t *testing.T) {
	cmd := &cobra.Command{Use: "sluice"}
	missing := &fs.PathError{Op: "open", Path: "p.yaml", Err: fs.ErrNotExist}
	for _, test := range []struct {
		err  error
		code int
		says string
	}{
		{nil, ExitOK, ""},
		{ExitWith(143), 143, ""},
		{errors.Join(ExitWith(ExitGate), fault.New(fault.User, "exit code 1", nil)), ExitGate, ""},
		{errors.New("disk"), ExitInfrastructure, "sluice: disk\n"},
		{fault.New(fault.Gate, "accuracy is 0.5", nil), ExitGate, "sluice: accuracy is 0.5\n"},
		{fault.Errorf(fault.Budget, "run r: %w", errors.New("it cost 7 USD")), exitBudget, "sluice: run r: it cost 7 USD\n"},
		{fmt.Errorf("step: %w", fault.New(fault.User, "exit code 1", nil)), exitUser, "sluice: exit code 1\n"},
		{temporal.NewApplicationError("step: it timed out", fault.Timeout), exitTimeout, "sluice: step: it timed out\n"},
		{fault.New(fault.Lost, "a record is gone", nil), ExitInfrastructure, "sluice: a record is gone\n"},
		{temporal.NewApplicationError("nil map", "runtimeError"), ExitInfrastructure, "sluice: nil map\n"},
		{temporal.NewCanceledError(), ExitInfrastructure, "sluice: canceled\n"}, // by another; the run's own end is its status
		{Invalidf("there is no run %s", "r"), ExitInvalid, "sluice: there is no run r\n"},
		{UsageError(cmd, "50% of what?"), ExitInvalid, "sluice: 50% of what?\n  help: see `sluice --help`\n"},
		{fmt.Errorf("keep it: %w", store.ErrFull), ExitInfrastructure, "sluice: keep it: no space left\n  help: free some space, or use a folder elsewhere with --state; open runs continue when Sluice is next started\n"},
		{WriteFile("/dev/full", []byte("x")), ExitInfrastructure, "sluice: write /dev/full: no space left on device\n  help: free some space there, or write elsewhere\n"},
		{fmt.Errorf("load: %w", missing), ExitInvalid, "sluice: load: open p.yaml: file does not exist\n"},
		{&control.LintError{}, ExitInvalid, ""},
		{fmt.Errorf("wait: %w", context.Canceled), exitCanceled, "sluice: interrupted\n"},
		{fault.Errorf(fault.Infrastructure, "wait: %w", context.Canceled), exitCanceled, "sluice: wait: context canceled\n"},
	} {
		var said strings.Builder
		if code := Conclude(&said, test.err); code != test.code || said.String() != test.says {
			t.Errorf("%v: exit code %d, %q; want %d, %q", test.err, code, said.String(), test.code, test.says)
		}
	}
}
