package runs

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/sluiceml/sluice/cmd/sluice/kit"
	"github.com/sluiceml/sluice/cmd/sluice/view"
	"github.com/sluiceml/sluice/control"
)

// cancelPatience is how long cancel waits for the run's end: programs have a grace period of their own within it.
const cancelPatience = time.Minute

// NewCancel makes `sluice cancel`.
func NewCancel() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "cancel RUN",
		Short: "Cancel a run and wait until it has ended",
		Long: `Cancel a run and wait until it has ended. Programs of running steps are told to end, and killed when they do not within their grace
period; a rollout gives traffic back to what served before. The steps of on_failure and finally run all the same: cancel again to stop
those that are running now, also in child pipelines. RUN is a run's name or the beginning of it, or a pipeline's name where
one run of it has not ended; where there are several, the command for each is shown.

The record of a run that Temporal has lost is closed. Where several state folders keep their runs in one store, a run of another folder is
canceled there; --lost closes its record when that folder is gone for good.`,
		Example:           `  sluice cancel spam-filter`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: kit.CompleteOpenRuns,
	}
	lost := cmd.Flags().Bool("lost", false, "the state folder or cluster that the run was begun with is gone for good: close the run's record")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return onOpenRun(cmd, args, func(ctx context.Context, s *control.Session, run string) error {
			if err := s.Cancel(ctx, run); err != nil && (!*lost || !errors.Is(err, control.ErrElsewhere)) {
				return err
			}
			ctx, done := context.WithTimeoutCause(ctx, cancelPatience, fmt.Errorf("it has not ended within %s; the cancel stands, and another one stops what on_failure or finally still does", cancelPatience))
			defer done()
			end, err := s.Wait(ctx, run)
			if err != nil {
				return fmt.Errorf("wait for the end of %s: %w", run, cmp.Or(context.Cause(ctx), err))
			}
			return view.ThemeOf(cmd.OutOrStdout()).Ending(cmd.OutOrStdout(), run, end)
		})
	}
	return cmd
}
