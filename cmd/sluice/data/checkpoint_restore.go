package data

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sluiceml/sluice/activities/engine"
	"github.com/sluiceml/sluice/cmd/sluice/kit"
	"github.com/sluiceml/sluice/store"
	"github.com/sluiceml/sluice/store/record"
	"github.com/sluiceml/sluice/training/checkpoint"
)

// restoredCheckpoint is the answer of `sluice checkpoint restore`.
type restoredCheckpoint struct {
	Checkpoint checkpoint.Kept `json:"checkpoint"`
	removedCheckpoints
	// Rerun is the command that goes on from the checkpoint.
	Rerun string `json:"rerun"`
}

func newCheckpointRestore() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "restore CHECKPOINT",
		Short: "Take a training that has ended back to an earlier checkpoint",
		Long: `Take a training that failed, was canceled or missed its deadline back to an
earlier checkpoint: its newer checkpoints are removed, so that ` + "`sluice rerun`" + `
resumes from this one. Without --yes nothing is removed, only listed.

The checkpoint is compared with its digests first; if it is damaged, nothing is
removed. Nor is anything while an open run may resume from the training. To
start another training from a checkpoint and keep the newer ones, use the key
resume_from of a train step.`,
		Example: `  sluice checkpoint restore reviews-20260301-120000/fit@1200
  sluice checkpoint restore reviews-20260301-120000/fit@1200 --yes`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: completeCheckpoints(1),
	}
	format := kit.AddFormat(cmd)
	yes := cmd.Flags().Bool("yes", false, "remove the newer checkpoints instead of only listing them")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		s, c, err := oneCheckpoint(cmd, args[0])
		if err != nil {
			return err
		}
		newer, err := newerThan(cmd.Context(), s, c)
		if err != nil {
			return err
		}
		if *yes {
			if err := checkpoint.Restore(cmd.Context(), s, newer); err != nil {
				return err
			}
		}
		run, _, _ := strings.Cut(c.Run, ".") // a child run is part of its parent's rerun
		done := restoredCheckpoint{c, removedCheckpoints{Checkpoints: newer, Removed: *yes}, "sluice rerun " + run}
		return kit.Print(cmd, *format, done, done.text)
	}
	return cmd
}

// newerThan lists the checkpoints that stand between a training that has ended and an earlier one of its checkpoints. It refuses one that a rerun
// would not resume from all the same.
func newerThan(ctx context.Context, s *store.Store, c checkpoint.Kept) ([]checkpoint.Kept, error) {
	if err := noneHeld(ctx, s, []checkpoint.Kept{c}); err != nil {
		return nil, err
	}
	at := record.StepRef{Run: c.Run, Step: c.Step}
	if step, index := record.SplitStep(c.Step); index >= 0 {
		at.Step, at.Instance = step, &record.Instance{Index: index}
	}
	var rec record.StepRecord
	err := s.GetJSON(ctx, record.Key(at), &rec)
	if err != nil && !errors.Is(err, store.ErrNotFound) && !errors.Is(err, store.ErrCorrupt) {
		return nil, err
	}
	if !engine.GoesOn(rec) {
		return nil, kit.Invalidf("nothing was removed: a rerun does not resume the training %s/%s, which has succeeded, failed its gate, or has no record\n"+
			"help: start a training from the checkpoint with `resume_from: %s`", c.Run, c.Step, c.Name())
	}
	if dot := strings.LastIndexByte(c.Run, '.'); dot >= 0 { // the run of a child pipeline
		step, _, _ := strings.Cut(c.Run[dot+1:], "-")
		newest, err := engine.NewestChild(ctx, s, c.Run[:dot], step)
		if err != nil {
			return nil, err
		}
		if newest != c.Run {
			return nil, kit.Invalidf("nothing was removed: %s was tried again as %s, from which a rerun resumes\nhelp: start a training from the checkpoint with `resume_from: %s`",
				c.Run, newest, c.Name())
		}
	}
	if _, err := newerOf(ctx, s, c); err != nil {
		return nil, err
	}
	if err := c.Verify(ctx, s); err != nil {
		return nil, fmt.Errorf("nothing was removed: %w", damaged(err))
	}
	// A large checkpoint takes hours to read. Meanwhile a run may have started that resumes from a newer one, or somebody restored another.
	if err := noneHeld(ctx, s, []checkpoint.Kept{c}); err != nil {
		return nil, err
	}
	return newerOf(ctx, s, c)
}

func newerOf(ctx context.Context, s *store.Store, c checkpoint.Kept) ([]checkpoint.Kept, error) {
	newer, err := checkpoint.Newer(ctx, s, c)
	switch {
	case errors.Is(err, checkpoint.ErrLeft):
		return nil, kit.Invalidf("nothing was removed: %w\nhelp: start a training from it with `resume_from: %s`", err, c.Name())
	case errors.Is(err, store.ErrNotFound):
		return nil, kit.Invalidf("nothing was removed: %w\nhelp: `sluice checkpoint ls %s` lists those that are left", err, c.Run)
	}
	return newer, err
}

func (r restoredCheckpoint) text(out io.Writer) error {
	if err := r.removedCheckpoints.text(out); err != nil {
		return err
	}
	verb := "resumes"
	if !r.Removed {
		verb = "would resume"
	}
	_, err := fmt.Fprintf(out, "`%s` %s from %s\n", r.Rerun, verb, r.Checkpoint.Name())
	return err
}
