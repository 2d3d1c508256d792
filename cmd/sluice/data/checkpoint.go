package data

import (
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/spf13/cobra"

	"github.com/sluiceml/sluice/cmd/sluice/kit"
	"github.com/sluiceml/sluice/internal/human"
	"github.com/sluiceml/sluice/training/checkpoint"
)

// NewCheckpoint makes `sluice checkpoint`.
func NewCheckpoint() *cobra.Command {
	return kit.Group(&cobra.Command{
		Use:   "checkpoint",
		Short: "List the checkpoints of train steps",
		Long: `Train steps commit checkpoints to the store while they run. The newest ones, as
many as ` + "`checkpoint: {keep: N}`" + ` says, are kept after the step has ended,
whatever its result, until ` + "`sluice data gc --checkpoints`" + ` removes them.`,
		Example: `  sluice checkpoint ls
  sluice checkpoint ls reviews-20260301-120000`,
	}, newCheckpointList())
}

func newCheckpointList() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "ls [RUN]",
		Short: "List the checkpoints in the store",
		Long: `List the committed checkpoints of all runs, or of one run, with the training
step and the size of each.`,
		Example: `  sluice checkpoint ls
  sluice checkpoint ls reviews-20260301-120000 --format json`,
		Args: cobra.MaximumNArgs(1),
	}
	format := kit.AddFormat(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		s, err := kit.OpenStore(cmd)
		if errors.Is(err, kit.ErrNoRuns) {
			return kit.Invalidf("there are no checkpoints yet: there are no runs in %s", kit.StateDir(cmd))
		} else if err != nil {
			return err
		}
		all, err := checkpoint.List(cmd.Context(), s)
		if err != nil {
			return err
		}
		if len(args) > 0 {
			all = slices.DeleteFunc(all, func(c checkpoint.Kept) bool { return c.Run != args[0] })
		}
		return kit.Print(cmd, *format, all, func(out io.Writer) error { return checkpointsText(out, all) })
	}
	return cmd
}

func checkpointsText(out io.Writer, all []checkpoint.Kept) error {
	if len(all) == 0 {
		_, err := fmt.Fprintln(out, "there are no checkpoints")
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
