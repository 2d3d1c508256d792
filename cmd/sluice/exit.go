package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"

	"github.com/spf13/cobra"
	"go.temporal.io/sdk/temporal"

	"github.com/sluiceml/sluice/activities/contract"
	"github.com/sluiceml/sluice/control"
	"github.com/sluiceml/sluice/dsl"
	"github.com/sluiceml/sluice/store"
)

// The exit codes, by error type. They are part of the command line's contract.
const (
	exitOK             = 0
	exitInfrastructure = 1
	exitInvalid        = 2
	exitUser           = 3
	exitGate           = 4
	exitTimeout        = 5
	exitBudget         = 6
	exitPreempted      = 7
	exitCanceled       = 130 // as a shell has it for SIGINT
)

// exitSignal is the code of a command that a signal ended, as a shell has it.
func exitSignal(sig os.Signal) int {
	if number, ok := sig.(syscall.Signal); ok {
		return 128 + int(number)
	}
	return exitInfrastructure
}

// codeOf maps the error types of a run.
var codeOf = map[string]int{
	contract.ErrInvalid:        exitInvalid,
	contract.ErrUser:           exitUser,
	contract.ErrInfrastructure: exitInfrastructure,
	contract.ErrPreempted:      exitPreempted,
	contract.ErrTimeout:        exitTimeout,
	contract.ErrGate:           exitGate,
	contract.ErrBudget:         exitBudget,
	contract.ErrCanceled:       exitCanceled,
}

// codeOfRun is the exit code for how a run ended. A failure without a type is infrastructure's, as contract.ErrorType has it.
func codeOfRun(out contract.RunOutput) int {
	switch out.Status {
	case dsl.StatusSucceeded, dsl.StatusDeclined, dsl.StatusSkipped:
		return exitOK
	default:
		return cmp.Or(codeOf[out.ErrorType], exitInfrastructure)
	}
}

// usage is a mistake in the command line itself.
type usage struct{ message string }

func (u usage) Error() string { return u.message }

func usageError(cmd *cobra.Command, message string) error {
	return usage{message + "\nhelp: `" + cmd.CommandPath() + " --help` shows how it is used"}
}

// silent ends the process with a code after everything was said already.
type silent struct{ code int }

func (s silent) Error() string { return fmt.Sprintf("exit status %d", s.code) }

func said(err error) bool { return errors.As(err, new(silent)) }

// exitCode maps an error to the process's exit code.
func exitCode(err error) int {
	var quiet silent
	var lint *control.LintError
	var app *temporal.ApplicationError
	switch {
	case err == nil:
		return exitOK
	case errors.As(err, &quiet):
		return quiet.code
	case errors.As(err, &lint), errors.As(err, new(usage)), errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.EISDIR):
		return exitInvalid
	case errors.Is(err, context.Canceled):
		return exitCanceled
	case errors.As(err, &app):
		return codeOf[contract.ErrorType(err)]
	}
	return exitInfrastructure
}

// messageOf is what a person should read of an error.
func messageOf(err error) string {
	var app *temporal.ApplicationError
	switch {
	case errors.As(err, &app):
		return contract.Message(err)
	case errors.Is(err, context.Canceled):
		return "interrupted"
	case errors.Is(err, store.ErrFull), errors.Is(err, syscall.ENOSPC):
		return err.Error() + "\nhelp: make room, or name a folder elsewhere with --state; a run that was under way goes on when Sluice is next started"
	}
	return err.Error()
}

// newExitCodes is a help topic: a command that cannot be run.
func newExitCodes() *cobra.Command {
	return &cobra.Command{
		Use:   "exit-codes",
		Short: "What Sluice's exit codes mean",
		Long: `Sluice ends with a code that says what kind of thing went wrong, so that scripts need not read messages:

    0  all is well; also when a gate declined the result (on_fail: stop), or another run held the concurrency group
       (on_conflict: skip), which are normal ends
    1  infrastructure: a process, disk, network or server failed, or Sluice itself
    2  invalid: the pipeline, the environment, a parameter or the command line
    3  user: a program of the pipeline failed, or its data are not there or not as it needs them
    4  gate: a gate did not hold, or a rollout was rolled back
    5  timeout: a step took longer than its timeout
    6  budget: the run cost more than its budget
    7  preempted: machines were taken away, more often than the step allows
  130  canceled, by a person or by Ctrl-C
  131, 143, 129  left by Ctrl-\ (SIGQUIT), SIGTERM or SIGHUP: how the run ends is not known yet, since it goes on

A run has the code of the first step that failed.`,
	}
}
