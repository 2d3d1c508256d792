package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sluiceml/sluice/cmd/sluice/view"
	"github.com/sluiceml/sluice/connect/state"
	"github.com/sluiceml/sluice/control"
	"github.com/sluiceml/sluice/internal/human"
)

// stateVariable names the state folder where --state does not.
const stateVariable = "SLUICE_STATE"

// newRoot makes the command tree.
func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:   "sluice",
		Short: "Carry a model from raw data to live traffic, with a gate at every step",
		Long: `Sluice carries a model from raw data to live traffic: it cleans the data, trains on machines that may vanish, compiles the
model and rolls it out. At every step a gate, written over what the step measured, decides whether anything flows on.

All of it is one durable run: kill any process, and the run goes on where it was. Nothing else need be installed; the state is in
the folder .sluice.`,
		Example: `  sluice lint pipeline.yaml
  sluice run pipeline.yaml -e environment.yaml -p epochs=2
  sluice show
  sluice report -o report.html`,
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          cobra.ArbitraryArgs,

		SuggestionsMinimumDistance: 2,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return unknown(cmd, args[0])
			}
			return cmd.Help()
		},
	}
	stateDir := os.Getenv(stateVariable)
	if stateDir == "" {
		stateDir = state.Dir
	}
	root.PersistentFlags().String("state", stateDir, "state folder, also by $"+stateVariable)
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error { return usageError(cmd, err.Error()) })
	root.AddGroup(
		&cobra.Group{ID: "write", Title: "Write pipelines:"},
		&cobra.Group{ID: "runs", Title: "Run pipelines:"},
		&cobra.Group{ID: "look", Title: "Look at runs:"},
		&cobra.Group{ID: "host", Title: "Keep Sluice running:"},
	)
	add := func(group string, commands ...*cobra.Command) {
		for _, c := range commands {
			c.GroupID = group
			strict(c)
			root.AddCommand(c)
		}
	}
	add("write", newInit(), newLint(), newExplain(), newFmt(), newPlan(), newSimulate())
	add("runs", newRun(), newClean(), newRerun(), newCancel(), newApprove(), newReject(), newSchedule())
	add("look", newList(), newShow(), newLogs(), newReport(), newData(), newCheckpoint())
	add("host", newUp(), newWorker(), newServe(), newCodec(), newDoctor())
	add("", newVersion(), newExitCodes())
	return root
}

// unknown is the error of a command that does not exist.
func unknown(root *cobra.Command, name string) error {
	message := fmt.Sprintf("there is no command `%s`", name)
	if near := root.SuggestionsFor(name); len(near) > 0 {
		return usage{message + "\nhelp: did you mean `" + strings.Join(near, "` or `") + "`?"}
	}
	return usageError(root, message)
}

// strict makes a command's complaints about the number of its arguments usage errors, in words of ours.
func strict(cmd *cobra.Command) {
	check := cmd.Args
	if check == nil {
		return
	}
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		if err := check(cmd, args); err != nil {
			return usageError(cmd, fmt.Sprintf("the command is `%s`, and here it has %s", strings.TrimSuffix(cmd.UseLine(), " [flags]"), human.Plural(int64(len(args)), "argument")))
		}
		return nil
	}
}

// stateOf is the state folder a command was given.
func stateOf(cmd *cobra.Command) string {
	dir, _ := cmd.Flags().GetString("state")
	return dir
}

// addFormat gives a command the flag --format, which is text, json or one of more.
func addFormat(cmd *cobra.Command, more ...string) *string {
	formats := append([]string{"text", "json"}, more...)
	last := len(formats) - 1
	choice := strings.Join(formats[:last], ", ") + " or " + formats[last]
	format := cmd.Flags().String("format", "text", choice)
	before := cmd.PreRunE
	cmd.PreRunE = func(cmd *cobra.Command, args []string) error {
		if !slices.Contains(formats, *format) {
			return usageError(cmd, fmt.Sprintf("--format is %s, not %q", choice, *format))
		}
		if before != nil {
			return before(cmd, args)
		}
		return nil
	}
	must(cmd.RegisterFlagCompletionFunc("format", cobra.FixedCompletions(formats, cobra.ShellCompDirectiveNoFileComp)))
	return format
}

// must panics on errors that only a programming mistake can cause.
func must(err error) {
	if err != nil {
		panic(err)
	}
}

// execute runs the command line args and returns the exit code.
func execute(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	root := newRoot()
	root.SetArgs(args)
	root.SetIn(stdin)
	root.SetOut(stdout)
	root.SetErr(stderr)
	err := root.ExecuteContext(ctx)
	if err != nil && !said(err) {
		complain(stderr, err)
	}
	return exitCode(err)
}

// complain writes an error the way all are written: what and why, then what to do.
func complain(w io.Writer, err error) {
	var lint *control.LintError
	if errors.As(err, &lint) {
		fmt.Fprint(w, lint.Diagnostics.Text(view.ThemeOf(w).Color)) //nolint:errcheck // there is nowhere else to say it
		return
	}
	text := strings.TrimSpace(messageOf(err))
	fmt.Fprintf(w, "sluice: %s\n", strings.ReplaceAll(text, "\n", "\n  ")) //nolint:errcheck // there is nowhere else to say it
}
