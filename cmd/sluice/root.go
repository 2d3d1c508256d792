package main

import (
	"context"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sluiceml/sluice/cmd/sluice/data"
	"github.com/sluiceml/sluice/cmd/sluice/host"
	"github.com/sluiceml/sluice/cmd/sluice/kit"
	"github.com/sluiceml/sluice/cmd/sluice/look"
	"github.com/sluiceml/sluice/cmd/sluice/release"
	runs "github.com/sluiceml/sluice/cmd/sluice/run"
	"github.com/sluiceml/sluice/cmd/sluice/write"
)

// newRoot makes the command tree.
func newRoot() *cobra.Command {
	root := kit.Group(&cobra.Command{
		Use:   "sluice",
		Short: "Take a model from raw data to live traffic, with a gate after every step",
		Long: `Sluice takes a model from raw data to live traffic: it cleans the data, trains
on machines that may be preempted, compiles the model and rolls it out. A step
can have a gate, an expression over its results that decides whether the
pipeline continues.

A run is durable: if a process is killed, the run continues where it stopped.
No server needs to be installed: Sluice includes Temporal, and keeps its state
in the folder .sluice.`,
		Example: `  sluice lint pipeline.yaml
  sluice run pipeline.yaml -e environment.yaml -p epochs=2
  sluice show
  sluice report -o report.html`,
		SilenceErrors: true,
		SilenceUsage:  true,
		Version:       versionLine(kit.ReadVersions()),
	})
	root.SetVersionTemplate("{{.Version}}\n")
	root.SetUsageTemplate(strings.ReplaceAll(root.UsageTemplate(), "Flags.FlagUsages |", "Flags.FlagUsagesWrapped 80 |"))
	kit.AddState(root)
	root.SetFlagErrorFunc(kit.FlagError)
	root.AddGroup(
		&cobra.Group{ID: "write", Title: "Write pipelines:"},
		&cobra.Group{ID: "runs", Title: "Run pipelines:"},
		&cobra.Group{ID: "look", Title: "Inspect runs:"},
		&cobra.Group{ID: "release", Title: "Release models:"},
		&cobra.Group{ID: "host", Title: "Operate Sluice:"},
	)
	add := func(group string, commands ...*cobra.Command) {
		for _, c := range commands {
			c.GroupID = group
		}
		kit.AddStrict(root, commands...)
	}
	add("write", write.NewInit(), write.NewSchema(), write.NewLint(), write.NewExplain(), write.NewFmt(), write.NewPlan(), write.NewSimulate())
	add("runs", runs.NewRun(), runs.NewClean(), runs.NewRerun(), runs.NewCancel(), runs.NewRemove(), runs.NewApprove(), runs.NewReject(), runs.NewSchedule())
	add("look", look.NewList(), look.NewShow(), look.NewLogs(), look.NewReport(), look.NewCost(), data.NewData(), data.NewCheckpoint())
	add("release", data.NewModel(), release.NewRelease(), release.NewRollout())
	add("host", host.NewUp(), host.NewWorker(), host.NewServe(), host.NewCodec(), host.NewDoctor())
	add("", newVersion(), newExitCodes())
	root.InitDefaultHelpCmd()
	helpOfKnown(root)
	return root
}

// helpOfKnown makes `sluice help NAME` an error where there is no such command. Cobra would print the help of root.
func helpOfKnown(root *cobra.Command) {
	help, _, _ := root.Find([]string{"help"})
	help.Args = func(_ *cobra.Command, args []string) error {
		if found, rest, _ := root.Find(args); found.HasSubCommands() && len(rest) > 0 {
			return kit.UnknownCommand(found, rest[0])
		}
		return nil
	}
}

// execute runs the command line args and returns the exit code.
func execute(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	root := newRoot()
	root.SetArgs(args)
	root.SetIn(stdin)
	root.SetOut(stdout)
	root.SetErr(stderr)
	return kit.Conclude(stderr, root.ExecuteContext(ctx))
}
