package data

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sluiceml/sluice/cmd/sluice/kit"
	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/artifact"
	"github.com/sluiceml/sluice/internal/human"
	"github.com/sluiceml/sluice/store"
	"github.com/sluiceml/sluice/store/record"
	"github.com/sluiceml/sluice/training/checkpoint"
)

func newCheckpointShow() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "show CHECKPOINT",
		Short: "Show a checkpoint and its files",
		Example: `  sluice checkpoint show reviews-20260301-120000/fit
  sluice checkpoint show reviews-20260301-120000/fit@1200 --format json`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: completeCheckpoints(1),
	}
	format := kit.AddFormat(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		s, c, err := oneCheckpoint(cmd, args[0])
		if err != nil {
			return err
		}
		files, err := c.Files(cmd.Context(), s)
		if err != nil {
			return damaged(err)
		}
		shown := struct {
			checkpoint.Kept
			Files []artifact.File `json:"files"`
		}{c, files}
		return kit.Print(cmd, *format, shown, func(out io.Writer) error {
			_, err := fmt.Fprintf(out, "%s\ngeneration %d, %s, committed %s\n%s\n", c.Name(), c.Generation, human.Bytes(c.Bytes), kit.Time(c.CommittedAt), writers(c))
			if err != nil {
				return err
			}
			return kit.Table(out, "file\tsize", func(w io.Writer) {
				for _, f := range files {
					kit.Row(w, f.Path, human.Bytes(f.Bytes))
				}
			})
		})
	}
	return cmd
}

// writers is a line that says who wrote a checkpoint and where it can be read; empty where its record does not say.
func writers(c checkpoint.Kept) string {
	if c.Nodes == 0 {
		return ""
	}
	line := fmt.Sprintf("layout %s, written by %s on %s", c.Layout, human.Plural(int64(c.Ranks), "rank"), human.Plural(int64(c.Nodes), "node"))
	switch {
	case c.Layout != spec.LayoutSharded:
	case c.Reshard:
		line += ", can be read on another number of nodes"
	default:
		line += ", can be read on this number of nodes only"
	}
	return line + "\n"
}

// damaged is the error of a checkpoint that cannot be read, which is the store's fault and not the user's.
func damaged(err error) error {
	if errors.Is(err, store.ErrCorrupt) || errors.Is(err, store.ErrNotFound) {
		return fmt.Errorf("the checkpoint is damaged: %w\nhelp: `sluice checkpoint verify` finds which others are", err)
	}
	return err
}

// verifiedCheckpoint is a checkpoint that has been read.
type verifiedCheckpoint struct {
	Checkpoint string `json:"checkpoint"`
	// Damage is what is wrong with it; empty when it is whole.
	Damage string `json:"damage,omitempty"`
}

func newCheckpointVerify() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "verify [RUN | CHECKPOINT]",
		Short: "Check the files of checkpoints against their digests",
		Long: `Read the files of all checkpoints, of those of a run, or of one, and compare
them with their digests. If one is damaged, the exit code is 1. A training skips
damaged checkpoints and resumes from the one before.`,
		Example: `  sluice checkpoint verify
  sluice checkpoint verify reviews-20260301-120000 --format json`,
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: completeCheckpoints(1),
	}
	format := kit.AddFormat(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		s, all, err := checkpoints(cmd)
		if err != nil {
			return err
		}
		if len(args) > 0 {
			if strings.Contains(args[0], "/") {
				c, err := findCheckpoint(cmd.Context(), s, all, args[0])
				if err != nil {
					return err
				}
				all = []checkpoint.Kept{c}
			} else {
				run, err := checkpointRun(cmd.Context(), s, all, args[0])
				if err != nil {
					return err
				}
				all = ofRun(all, run)
			}
		}
		read, bad := []verifiedCheckpoint{}, 0
		for _, c := range all {
			v, state := verifiedCheckpoint{Checkpoint: c.Name()}, "whole"
			switch err := c.Verify(cmd.Context(), s); {
			case errors.Is(err, store.ErrCorrupt) || errors.Is(err, store.ErrNotFound):
				v.Damage, state = err.Error(), "damaged: "+err.Error()
				bad++
			case err != nil:
				return err
			}
			read = append(read, v)
			if *format != "json" { // each as it comes, for they may be large
				if _, err := fmt.Fprintf(cmd.OutOrStdout(), "%s: %s\n", v.Checkpoint, state); err != nil {
					return err
				}
			}
		}
		err = kit.Print(cmd, *format, read, func(out io.Writer) error {
			if len(read) == 0 {
				_, err := fmt.Fprintln(out, "there are no checkpoints to verify")
				return err
			}
			_, err := fmt.Fprintf(out, "%s read: %d damaged\n", human.Plural(int64(len(read)), "checkpoint"), bad)
			return err
		})
		if err == nil && bad > 0 {
			err = kit.ExitWith(kit.ExitInfrastructure)
		}
		return err
	}
	return cmd
}

func newCheckpointExport() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "export CHECKPOINT DIR",
		Short: "Write a checkpoint to a folder",
		Long: `Write a checkpoint to a folder, as the script wrote it. Every file is checked
against its digest, and the folder only appears when it is complete. The folder
must not exist, or be empty.`,
		Example: `  sluice checkpoint export reviews-20260301-120000/fit checkpoint/
  sluice checkpoint export reviews-20260301-120000/fit@1200 checkpoint/`,
		Args:              cobra.ExactArgs(2),
		ValidArgsFunction: completeCheckpoints(1),
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		s, c, err := oneCheckpoint(cmd, args[0])
		if err != nil {
			return err
		}
		if entries, err := os.ReadDir(args[1]); err == nil && len(entries) > 0 {
			return kit.Invalidf("%s is not empty\nhelp: use a folder that does not exist or is empty", args[1])
		}
		if err := c.Export(cmd.Context(), s, args[1]); errors.Is(err, store.ErrExists) {
			return kit.Invalidf("%s", err)
		} else if err != nil {
			return damaged(err)
		}
		_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s: %s, %s\n", args[1], c.Name(), human.Bytes(c.Bytes))
		return err
	}
	return cmd
}

// removedCheckpoints is the answer of `sluice checkpoint rm`.
type removedCheckpoints struct {
	Checkpoints []checkpoint.Kept `json:"checkpoints"`
	Removed     bool              `json:"removed"`
}

func newCheckpointRemove() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "rm CHECKPOINT...",
		Short: "Remove checkpoints of train steps that have ended",
		Long: `Remove checkpoints of train steps that have ended. Without --yes nothing is
removed, only listed. A checkpoint cannot be removed while an open run may
resume from it.`,
		Example: `  sluice checkpoint rm reviews-20260301-120000/fit@1200
  sluice checkpoint rm reviews-20260301-120000/fit@1200 --yes`,
		Args:              cobra.MinimumNArgs(1),
		ValidArgsFunction: completeCheckpoints(0),
	}
	format := kit.AddFormat(cmd)
	yes := cmd.Flags().Bool("yes", false, "remove instead of only listing")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		s, all, err := checkpoints(cmd)
		if err != nil {
			return err
		}
		done := removedCheckpoints{Checkpoints: []checkpoint.Kept{}, Removed: *yes}
		for _, name := range args {
			c, err := findCheckpoint(cmd.Context(), s, all, name)
			if err != nil {
				return err
			}
			done.Checkpoints = append(done.Checkpoints, c)
		}
		if err := noneHeld(cmd.Context(), s, done.Checkpoints); err != nil {
			return err
		}
		if *yes {
			for _, c := range done.Checkpoints {
				if err := checkpoint.Remove(cmd.Context(), s, c); err != nil {
					return err
				}
			}
		}
		return kit.Print(cmd, *format, done, done.text)
	}
	return cmd
}

// noneHeld refuses to remove checkpoints that an open run may resume from.
func noneHeld(ctx context.Context, s *store.Store, all []checkpoint.Kept) error {
	runs, err := record.Runs(ctx, s)
	if err != nil {
		return err
	}
	held, err := resumable(ctx, s, runs)
	if err != nil {
		return err
	}
	for _, c := range all {
		if isOf(held, c.Run) {
			return kit.Invalidf("nothing was removed: an open run may resume from %s\nhelp: let it finish, or cancel it", c.Name())
		}
	}
	return nil
}

func (d removedCheckpoints) text(out io.Writer) error {
	verb := "removed"
	if !d.Removed {
		verb = "would remove"
		if _, err := fmt.Fprintln(out, "dry run: nothing is removed without `--yes`"); err != nil {
			return err
		}
	}
	for _, c := range d.Checkpoints {
		if _, err := fmt.Fprintf(out, "%s %s, %s\n", verb, c.Name(), human.Bytes(c.Bytes)); err != nil {
			return err
		}
	}
	return nil
}
