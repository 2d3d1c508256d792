package data

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/sluiceml/sluice/cmd/sluice/kit"
	"github.com/sluiceml/sluice/connect"
	"github.com/sluiceml/sluice/connect/state/holder"
	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/fault"
	"github.com/sluiceml/sluice/internal/human"
	"github.com/sluiceml/sluice/store"
	"github.com/sluiceml/sluice/store/record"
	"github.com/sluiceml/sluice/training/checkpoint"
)

// collected is what `data gc` removed or would remove.
type collected struct {
	Blobs       int   `json:"blobs"`
	Checkpoints int   `json:"checkpoints"`
	Bytes       int64 `json:"bytes"`
	// Before is the time that what stays was written after.
	Before time.Time `json:"before"`
	// HeldBy is the run that has been open for longer than --older-than, so that what was written since it began stays.
	HeldBy string `json:"held_by,omitempty"`
	// Elsewhere: HeldBy was started with another state folder, or on another cluster, which may no longer exist.
	Elsewhere bool `json:"held_elsewhere,omitempty"`
	// Removed is false when it was only looked.
	Removed bool `json:"removed"`
}

func newDataGC() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "gc",
		Short: "Remove stored files that nothing refers to",
		Long: `Remove the files in the store that no run, published version, tag, cache entry,
release or applied trigger refers to, most of them left by failed attempts.
With --checkpoints, also remove the checkpoints of train steps that have ended,
which ` + "`sluice checkpoint ls`" + ` lists. Without --yes nothing is removed, only
counted.

Files younger than --older-than are kept, and so are those written since the
oldest open run started. Files of a run or version that was removed are kept
for as long after its removal.

The command can run beside other runs, here and on other machines. With
--older-than below 2h it is rejected while a run is open or a Sluice process
holds the state folder, since a step that has just started may need files that
nothing refers to yet; if several clusters share the store, make sure that none
of them runs anything.`,
		Example: `  sluice data gc
  sluice data gc --yes --older-than 168h
  sluice data gc --checkpoints --older-than 720h`,
		Args: cobra.NoArgs,
	}
	format := kit.AddFormat(cmd)
	yes := cmd.Flags().Bool("yes", false, "remove instead of only listing")
	checkpoints := cmd.Flags().Bool("checkpoints", false, "also remove checkpoints of train steps that have ended")
	age := cmd.Flags().Duration("older-than", kit.UnusedAge, "keep files younger than this")
	cmd.RunE = func(cmd *cobra.Command, _ []string) (err error) {
		if *age < 0 {
			return kit.UsageError(cmd, "--older-than must not be negative")
		}
		s, err := dataStore(cmd)
		if err != nil {
			return err
		}
		if *age < store.SweepMargin {
			release, err := standStill(cmd, s)
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, release()) }()
		}
		runs, err := record.Runs(cmd.Context(), s)
		if err != nil {
			return err
		}
		before, heldBy := record.Sweepable(runs, time.Now().Add(-*age))
		garbage, err := s.Garbage(cmd.Context(), before)
		if err != nil {
			return err
		}
		var ended []checkpoint.Kept
		if *checkpoints {
			if ended, err = checkpoint.List(cmd.Context(), s); err != nil {
				return err
			}
			ended = slices.DeleteFunc(ended, func(c checkpoint.Kept) bool { return !c.CommittedAt.Before(before) })
			if ended, err = notHeld(cmd.Context(), s, ended); err != nil {
				return err
			}
		}
		waiting := func(until time.Time) {
			fmt.Fprintf(cmd.ErrOrStderr(), "sluice: waiting for another `sluice data gc` on this store; if it was killed, this one continues at %s\n", //nolint:errcheck // it goes on
				until.Local().Format(time.TimeOnly))
		}
		done := collected{Blobs: len(garbage), Checkpoints: len(ended), Before: before, HeldBy: heldBy, Removed: *yes}
		if i := slices.IndexFunc(runs, func(r record.RunRecord) bool { return r.Run == heldBy }); i >= 0 {
			done.Elsewhere = connect.IsElsewhere(kit.StateDir(cmd), runs[i].Home)
		}
		if *yes {
			if garbage, err = s.Sweep(cmd.Context(), garbage, before, waiting); err != nil {
				return err
			}
			done.Blobs = len(garbage)
			if ended, err = removeCheckpoints(cmd.Context(), s, ended); err != nil {
				return err
			}
			done.Checkpoints = len(ended)
		}
		for _, c := range ended {
			done.Bytes += c.Bytes
		}
		for _, info := range garbage {
			done.Bytes += info.Bytes
		}
		return kit.Print(cmd, *format, done, done.text)
	}
	return cmd
}

func (c collected) text(out io.Writer) error {
	what := human.Plural(int64(c.Blobs), "file")
	if c.Checkpoints > 0 {
		what += " and " + human.Plural(int64(c.Checkpoints), "checkpoint")
	}
	said := fmt.Sprintf("dry run: nothing refers to %s, %s; `--yes` removes them", what, human.Bytes(c.Bytes))
	switch {
	case c.Blobs+c.Checkpoints == 0:
		said = "nothing to remove"
	case c.Removed:
		said = fmt.Sprintf("removed %s, %s", what, human.Bytes(c.Bytes))
	}
	if c.HeldBy != "" {
		said += fmt.Sprintf("\nrun %s is open: files written since %s are kept until it has ended", c.HeldBy,
			kit.Time(c.Before))
		if c.Elsewhere {
			said += fmt.Sprintf("\nit was started with another state folder, or on another cluster; if that no longer exists, `sluice cancel %s --lost` closes its record", c.HeldBy)
		}
	}
	_, err := fmt.Fprintln(out, said)
	return err
}

// standStill sees to it that no run is open, and that none begins on this state folder until release is called.
func standStill(cmd *cobra.Command, s *store.Store) (release func() error, err error) {
	release = func() error { return nil }
	if _, err := os.Stat(kit.StateDir(cmd)); err == nil && !connect.ClusterNamed() {
		h, err := holder.Acquire(kit.StateDir(cmd))
		if errors.Is(err, holder.ErrHeld) {
			return nil, fault.New(fault.Invalid, "another Sluice process holds "+kit.StateDir(cmd)+", and may write to the store at any time\nhelp: stop it first", nil)
		}
		if err != nil {
			return nil, err
		}
		release = h.Release
	}
	if err := noneOpen(cmd.Context(), s); err != nil {
		return nil, errors.Join(err, release())
	}
	return release, nil
}

func noneOpen(ctx context.Context, s *store.Store) error {
	runs, err := record.Runs(ctx, s)
	if err != nil {
		return err
	}
	for _, r := range runs {
		if r.Status == spec.StatusRunning {
			return kit.Invalidf("run %s is open, and may need files that nothing refers to yet\nhelp: let it finish with `sluice up`, or cancel it with `sluice cancel %s`", r.Run, r.Run)
		}
	}
	return nil
}

// lookAgain is how often it is looked which runs are open while checkpoints are removed.
const lookAgain = 10 * time.Second

// removeCheckpoints removes checkpoints, and returns those that it removed. A run that has begun since they were listed, which may be long
// ago on a large store, keeps those that it may go on from.
func removeCheckpoints(ctx context.Context, s *store.Store, all []checkpoint.Kept) (removed []checkpoint.Kept, err error) {
	var looked time.Time
	for len(all) > 0 {
		if time.Since(looked) >= lookAgain {
			if all, err = notHeld(ctx, s, all); err != nil {
				return removed, err
			}
			looked = time.Now()
			continue
		}
		if err := checkpoint.Remove(ctx, s, all[0]); err != nil {
			return removed, err
		}
		removed, all = append(removed, all[0]), all[1:]
	}
	return removed, nil
}

// notHeld returns the checkpoints that no open run may go on from.
func notHeld(ctx context.Context, s *store.Store, all []checkpoint.Kept) ([]checkpoint.Kept, error) {
	runs, err := record.Runs(ctx, s)
	if err != nil {
		return nil, err
	}
	held, err := resumable(ctx, s, runs)
	return slices.DeleteFunc(all, func(c checkpoint.Kept) bool { return isOf(held, c.Run) }), err
}

// resumable are the runs whose checkpoints a run that is open may go on from, or writes.
func resumable(ctx context.Context, s *store.Store, runs []record.RunRecord) (map[string]bool, error) {
	all := map[string]bool{}
	for _, r := range runs {
		if r.Status != spec.StatusRunning {
			continue
		}
		sources, err := checkpoint.Sources(ctx, s, r.Run)
		if err != nil {
			return nil, err
		}
		for _, name := range slices.Concat([]string{r.Run}, record.Ancestors(runs, r), sources) {
			all[name] = true
		}
	}
	return all, nil
}

// isOf reports whether a run is one of some, or that of a child pipeline of one, which goes with its parent's.
func isOf(runs map[string]bool, name string) bool {
	if runs[name] {
		return true
	}
	for i, c := range name {
		if c == '.' && runs[name[:i]] {
			return true
		}
	}
	return false
}
