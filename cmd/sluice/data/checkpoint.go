package data

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sluiceml/sluice/cmd/sluice/kit"
	"github.com/sluiceml/sluice/control"
	"github.com/sluiceml/sluice/internal/human"
	"github.com/sluiceml/sluice/internal/suggest"
	"github.com/sluiceml/sluice/store"
	"github.com/sluiceml/sluice/training/checkpoint"
)

// NewCheckpoint makes `sluice checkpoint`.
func NewCheckpoint() *cobra.Command {
	return kit.Group(&cobra.Command{
		Use:   "checkpoint",
		Short: "List, check, export, restore and remove checkpoints of trainings",
		Long: `Train steps commit checkpoints to the store while they run. The newest ones, as
many as ` + "`checkpoint: {keep: N}`" + ` says, are kept after the step has ended,
whatever its result, until ` + "`sluice data gc --checkpoints`" + ` removes them. A
checkpoint is named RUN/STEP@TRAINING-STEP; RUN/STEP is the newest of the step.
RUN is the name of a run, a prefix of one, or the name of a pipeline, which
stands for its newest run.`,
		Example: `  sluice checkpoint ls reviews-20260301-120000
  sluice checkpoint export reviews-20260301-120000/fit@1200 checkpoint/`,
	}, newCheckpointList(), newCheckpointShow(), newCheckpointVerify(), newCheckpointExport(), newCheckpointRestore(), newCheckpointRemove())
}

func newCheckpointList() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "ls [RUN]",
		Aliases: []string{"list"},
		Short:   "List the checkpoints in the store",
		Long: `List the committed checkpoints of all runs, or of one run, with the training
step and the size of each.`,
		Example: `  sluice checkpoint ls
  sluice checkpoint ls reviews
  sluice checkpoint ls reviews-20260301-120000 --format json`,
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: kit.CompleteRuns,
	}
	format := kit.AddFormat(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		s, all, err := checkpoints(cmd)
		if err != nil {
			return err
		}
		none := "there are no checkpoints"
		if len(args) > 0 {
			run, err := checkpointRun(cmd.Context(), s, all, args[0])
			if err != nil {
				return err
			}
			all = ofRun(all, run)
			none = "run " + run + " has no checkpoints; `sluice checkpoint ls` lists those of all runs"
		}
		return kit.Print(cmd, *format, all, func(out io.Writer) error { return checkpointsText(out, all, none) })
	}
	return cmd
}

// checkpoints opens the store and lists all there are.
func checkpoints(cmd *cobra.Command) (*store.Store, []checkpoint.Kept, error) {
	s, err := kit.OpenStore(cmd)
	if errors.Is(err, kit.ErrNoRuns) {
		return nil, nil, kit.Invalidf("there are no checkpoints yet: there are no runs in %s", kit.StateDir(cmd))
	} else if err != nil {
		return nil, nil, err
	}
	all, err := checkpoint.List(cmd.Context(), s)
	return s, all, err
}

// checkpointRun is the run that a name means to the commands of checkpoints: as to any other command, or one whose record has been removed
// while checkpoints of it are left.
func checkpointRun(ctx context.Context, s *store.Store, all []checkpoint.Kept, name string) (string, error) {
	if name == "" {
		return "", kit.Invalidf("the name of a run must not be empty")
	}
	if len(ofRun(all, name)) > 0 {
		return name, nil
	}
	run, err := control.FindRun(ctx, s, name)
	return run.Run, err
}

// ofRun lists the checkpoints of a run.
func ofRun(all []checkpoint.Kept, run string) []checkpoint.Kept {
	return slices.DeleteFunc(slices.Clone(all), func(c checkpoint.Kept) bool { return c.Run != run })
}

// findCheckpoint finds the newest one that a name means.
func findCheckpoint(ctx context.Context, s *store.Store, all []checkpoint.Kept, name string) (checkpoint.Kept, error) {
	whole := name
	if run, step, named := strings.Cut(name, "/"); named {
		run, err := checkpointRun(ctx, s, all, run)
		if err != nil {
			return checkpoint.Kept{}, err
		}
		whole = run + "/" + step
	} else if run, err := checkpointRun(ctx, s, all, name); err == nil && len(ofRun(all, run)) > 0 { // a run in place of a step of it
		newest := ofRun(all, run)
		whole = run + "/" + newest[len(newest)-1].Step
		return checkpoint.Kept{}, kit.Invalidf("%q is a run, and a checkpoint is one of its steps; `sluice checkpoint ls %[1]s` lists them\nhelp: did you mean `%s`?", name, whole)
	}
	var known []string
	for _, c := range slices.Backward(all) {
		if c.Name() == whole || c.Run+"/"+c.Step == whole {
			return c, nil
		}
		known = append(known, c.Name(), c.Run+"/"+c.Step)
	}
	return checkpoint.Kept{}, kit.Invalidf("there is no checkpoint %q; `sluice checkpoint ls` lists them%s", whole, suggest.HelpNear(whole, known))
}

// oneCheckpoint opens the store and finds the checkpoint that a name means.
func oneCheckpoint(cmd *cobra.Command, name string) (*store.Store, checkpoint.Kept, error) {
	s, all, err := checkpoints(cmd)
	if err != nil {
		return nil, checkpoint.Kept{}, err
	}
	c, err := findCheckpoint(cmd.Context(), s, all, name)
	return s, c, err
}

// completeCheckpoints completes the names of checkpoints, of the first args arguments.
func completeCheckpoints(args int) cobra.CompletionFunc {
	return func(cmd *cobra.Command, given []string, _ string) ([]string, cobra.ShellCompDirective) {
		if args > 0 && len(given) >= args {
			return nil, cobra.ShellCompDirectiveDefault
		}
		var names []string
		if _, all, err := checkpoints(cmd); err == nil {
			for _, c := range all {
				names = append(names, c.Name())
			}
		}
		return names, cobra.ShellCompDirectiveNoFileComp
	}
}

func checkpointsText(out io.Writer, all []checkpoint.Kept, none string) error {
	if len(all) == 0 {
		_, err := fmt.Fprintln(out, none)
		return err
	}
	return kit.Table(out, "run\tstep\ttraining step\tgeneration\tsize\tcommitted", func(w io.Writer) {
		for _, c := range all {
			size := "damaged"
			if c.Bytes > 0 {
				size = human.Bytes(c.Bytes)
			}
			kit.Row(w, c.Run, c.Step, human.Count(c.TrainingStep), fmt.Sprint(c.Generation), size, kit.Time(c.CommittedAt))
		}
	})
}
