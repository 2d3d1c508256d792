// Package kit has what the commands of sluice share: exit codes and error output, flags and their completion, the store, tables, signals
// and the terminal.
package kit

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/sluiceml/sluice/cmd/sluice/view"
	"github.com/sluiceml/sluice/control"
	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/fault"
	"github.com/sluiceml/sluice/store"
	"github.com/sluiceml/sluice/store/record"
)

// The exit codes that commands name themselves. Those of runs, by error type, are in the table of spec.EndOfRun.
const (
	ExitOK             = 0
	ExitInfrastructure = 1
	ExitInvalid        = 2
	ExitGate           = 4
)

// ExitSignal returns the exit code of a command that a signal ended, as a shell reports it.
func ExitSignal(sig os.Signal) int {
	if number, ok := sig.(syscall.Signal); ok {
		return 128 + int(number)
	}
	return ExitInfrastructure
}

// CodeOfRun is the exit code for how a run ended.
func CodeOfRun(out record.RunOutput) int { return spec.EndOfRun(out.Status, out.ErrorType).Exit }

// UsageError returns an error that says what is wrong with the command line, and how to get the command's help.
func UsageError(cmd *cobra.Command, message string) error {
	return Invalidf("%s\nhelp: see `%s --help`", message, cmd.CommandPath())
}

// silent ends the process with a code when everything has already been printed.
type silent struct{ code int }

func (s silent) Error() string { return fmt.Sprintf("exit status %d", s.code) }

// ExitWith returns the error that ends the process with a code when everything has already been printed.
func ExitWith(code int) error { return silent{code} }

// typeOf returns the type of an error that a command ends with. Some errors without a type have a meaning here.
func typeOf(err error) string {
	switch _, typed := fault.As(err); {
	case errors.As(err, new(*control.LintError)), errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.EISDIR):
		return fault.Invalid
	case errors.Is(err, context.Canceled):
		return fault.Canceled
	case typed:
		return fault.TypeOf(err)
	}
	return fault.Infrastructure
}

// messageOf returns the part of an error that a person should read.
func messageOf(err error) string {
	if typed, ok := fault.As(err); ok {
		return typed.Message
	}
	switch {
	case errors.Is(err, context.Canceled):
		return "interrupted"
	case errors.Is(err, store.ErrFull):
		return err.Error() + "\nhelp: free some space, or use a folder elsewhere with --state; open runs continue when Sluice is next started"
	case errors.Is(err, syscall.ENOSPC):
		return err.Error() + "\nhelp: free some space there, or write elsewhere"
	}
	return err.Error()
}

// Conclude prints a command's error, unless everything has been printed, and returns the process's exit code.
func Conclude(w io.Writer, err error) int {
	quiet, said := errors.AsType[silent](err)
	switch {
	case err == nil:
		return ExitOK
	case said:
		return quiet.code
	}
	Complain(w, err)
	return spec.EndOfRun(spec.StatusFailed, typeOf(err)).Exit // that of a run which failed so
}

// Complain prints an error in the common form: what and why, then what to do.
func Complain(w io.Writer, err error) {
	if lint, ok := errors.AsType[*control.LintError](err); ok {
		fmt.Fprint(w, lint.Diagnostics.Text(view.ThemeOf(w).Color)) //nolint:errcheck // there is nowhere else to say it
		return
	}
	text := strings.TrimSpace(messageOf(err))
	fmt.Fprintf(w, "sluice: %s\n", strings.ReplaceAll(text, "\n", "\n  ")) //nolint:errcheck // there is nowhere else to say it
}

// Invalidf returns an error about a command's arguments: a name that does not exist, a folder that cannot be written to.
func Invalidf(format string, args ...any) error {
	return fault.Errorf(fault.Invalid, format, args...)
}
