package run

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
		Long: `Cancel a run and wait until it has ended. Programs of running steps are
terminated, and killed if they have not exited after their grace period; a
rollout returns the traffic to the previous release. The steps of on_failure
and finally still run: cancel again to stop those that are running then, also
in child pipelines. RUN is the name of a run, a prefix of one, or the name of
a pipeline with one open run; if it has several, the command for each is shown.

If Temporal has lost the run, its record is closed. If several state folders
share a store, a run of another folder must be canceled there; --lost closes
its record if that folder no longer exists.`,
		Example:           `  sluice cancel spam-filter`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: kit.CompleteOpenRuns,
	}
	lost := cmd.Flags().Bool("lost", false, "the state folder or cluster of the run no longer exists: close the run's record")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return onOpenRun(cmd, args, func(ctx context.Context, s *control.Session, run string) error {
			if err := s.Cancel(ctx, run); err != nil && (!*lost || !errors.Is(err, control.ErrElsewhere)) {
				return err
			}
			ctx, done := context.WithTimeoutCause(ctx, cancelPatience, fmt.Errorf("the run has been canceled but has not ended within %s; cancel again to stop the steps of on_failure or finally", cancelPatience))
			defer done()
			end, err := s.Wait(ctx, run)
			if err != nil {
				return fmt.Errorf("wait for %s to end: %w", run, cmp.Or(context.Cause(ctx), err))
			}
			return view.ThemeOf(cmd.OutOrStdout()).Ending(cmd.OutOrStdout(), run, end)
		})
	}
	return cmd
}
