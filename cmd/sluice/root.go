package main

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
)

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
	addState(root)
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
		return misuse(message + "\nhelp: did you mean `" + strings.Join(near, "` or `") + "`?")
	}
	return usageError(root, message)
}

// execute runs the command line args and returns the exit code.
func execute(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	root := newRoot()
	root.SetArgs(args)
	root.SetIn(stdin)
	root.SetOut(stdout)
	root.SetErr(stderr)
	return conclude(stderr, root.ExecuteContext(ctx))
}
