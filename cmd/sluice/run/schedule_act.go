package run

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/sluiceml/sluice/activities/contract"
	"github.com/sluiceml/sluice/cmd/sluice/kit"
	"github.com/sluiceml/sluice/connect/schedule"
	"github.com/sluiceml/sluice/control"
)

func newSchedulePause() *cobra.Command {
	var reason string
	cmd := newAct("paused", &cobra.Command{
		Use:   "pause PIPELINE/TRIGGER...",
		Short: "Pause triggers",
		Long: `Pause triggers: they start no runs, and do not check for new data, until they
are resumed. Runs that they started continue. Applying the pipeline again does
not resume them. Pausing one again keeps its reason, unless you give another.`,
		Example: `  sluice schedule pause spam-filter/nightly --reason "the mail server is down"`,
	}, func(ctx context.Context, s *schedule.Schedules, name string) error { return s.Pause(ctx, name, reason) })
	cmd.Flags().StringVar(&reason, "reason", "", "reason, shown with the trigger")
	return cmd
}

func newScheduleResume() *cobra.Command {
	return newAct("resumed", &cobra.Command{
		Use:   "resume PIPELINE/TRIGGER...",
		Short: "Resume paused triggers",
		Long: `Resume paused triggers. Runs that they would have started in the meantime are
not started; use ` + "`sluice schedule backfill`" + ` for those.`,
		Example: `  sluice schedule resume spam-filter/nightly`,
	}, func(ctx context.Context, s *schedule.Schedules, name string) error { return s.Resume(ctx, name) })
}

func newScheduleDelete() *cobra.Command {
	return newAct("deleted", &cobra.Command{
		Use:   "delete PIPELINE/TRIGGER...",
		Short: "Delete triggers from the server",
		Long: `Delete triggers from the server, with what they have recorded about data they
have seen. Runs that they started continue. A trigger that the pipeline still
declares is created again when the pipeline is next applied.`,
		Example: `  sluice schedule delete spam-filter/nightly`,
	}, func(ctx context.Context, s *schedule.Schedules, name string) error { return s.Delete(ctx, name) })
}

// done is what was done to a trigger.
type done struct {
	Trigger string `json:"trigger"`
	Done    string `json:"done"`
	Run     string `json:"run,omitempty"`
}

// newAct makes a command that acts on each of the triggers named, and says what was done.
func newAct(what string, cmd *cobra.Command, act func(context.Context, *schedule.Schedules, string) error) *cobra.Command {
	cmd.Args, cmd.ValidArgsFunction = cobra.MinimumNArgs(1), completeTriggers
	format := kit.AddFormat(cmd)
	cmd.RunE = func(cmd *cobra.Command, names []string) error {
		return withServer(cmd, func(s *control.Session) error {
			for _, name := range names {
				if err := act(cmd.Context(), s.Schedules(), name); err != nil {
					return err
				}
				if err := tell(cmd, *format, done{Trigger: name, Done: what}); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return cmd
}

// tell says what was done: a line for people, or a JSON object.
func tell(cmd *cobra.Command, format string, d done) error {
	return kit.Print(cmd, format, d, func(out io.Writer) error {
		_, err := fmt.Fprintln(out, strings.TrimSpace(d.Trigger+": "+d.Done+" "+d.Run))
		return err
	})
}

func newScheduleTrigger() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "trigger PIPELINE/TRIGGER",
		Short: "Fire a trigger now",
		Long: `Fire a trigger now as it would when it is due. A schedule starts a run,
unless one is open and its on_conflict says otherwise. A trigger that watches
something checks it now, and starts a run if its condition is met.`,
		Example:           `  sluice schedule trigger spam-filter/nightly`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: completeTrigger,
	}
	format := kit.AddFormat(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := needUp(cmd); err != nil {
			return err
		}
		return withServer(cmd, func(s *control.Session) error {
			fired, err := s.Schedules().Fire(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			if fired.Paused {
				_, err := fmt.Fprintf(cmd.ErrOrStderr(), "sluice: %s is paused and stays paused\n", args[0])
				if err != nil {
					return err
				}
			}
			d := done{Trigger: args[0], Run: contract.RunOf(fired.Workflow)}
			switch {
			case fired.Skipped:
				d.Done = "skipped: one of its runs is open"
			case d.Run != "":
				d.Done = "started"
			case fired.Workflow != "":
				d.Done = "checking now"
			default:
				d.Done = "waiting for its turn"
			}
			return tell(cmd, *format, d)
		})
	}
	return cmd
}

func newScheduleBackfill() *cobra.Command {
	var from, to string
	cmd := &cobra.Command{
		Use:   "backfill PIPELINE/TRIGGER",
		Short: "Start the runs that a schedule would have started in the past",
		Long: `Start the runs that a schedule would have started between two times, both
included, one after the other. Each run gets the time it is for as
run.scheduled_at and run.trigger.time. A time that has had its run is skipped.

A time is written as 2026-01-31T03:00:00Z. The date 2026-01-31 means that whole
day in UTC, in --from as in --to, but no time after now.`,
		Example:           `  sluice schedule backfill spam-filter/nightly --from 2026-01-01 --to 2026-01-31`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: completeTrigger,
	}
	cmd.Flags().StringVar(&from, "from", "", "first time (required)")
	cmd.Flags().StringVar(&to, "to", "", "last time (required)")
	format := kit.AddFormat(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		first, _, err := parseTime(cmd, "from", from)
		if err != nil {
			return err
		}
		last, isDay, err := parseTime(cmd, "to", to)
		if err != nil {
			return err
		}
		if isDay {
			last = endOfDay(last, time.Now())
		}
		if err := needUp(cmd); err != nil {
			return err
		}
		return withServer(cmd, func(s *control.Session) error {
			if err := s.Schedules().Backfill(cmd.Context(), args[0], first, last); err != nil {
				return err
			}
			return tell(cmd, *format, done{Trigger: args[0], Done: fmt.Sprintf(
				"runs of %s to %s start one after the other, but for times that have had theirs", first.UTC().Format(time.RFC3339), last.UTC().Format(time.RFC3339))})
		})
	}
	return cmd
}

// endOfDay is the last second of the day that begins at a time, or now when that is earlier.
func endOfDay(day, now time.Time) time.Time {
	end := day.AddDate(0, 0, 1).Add(-time.Second)
	if now.Before(end) {
		return now
	}
	return end
}

// parseTime reads a time of the command line, or the beginning of a day.
func parseTime(cmd *cobra.Command, flag, text string) (at time.Time, isDay bool, err error) {
	for _, form := range []string{time.RFC3339, time.DateOnly} {
		if at, err := time.Parse(form, strings.TrimSpace(text)); err == nil {
			return at, form == time.DateOnly, nil
		}
	}
	return time.Time{}, false, kit.UsageError(cmd, fmt.Sprintf("--%s must be a time such as 2026-01-31T03:00:00Z or 2026-01-31, not %q", flag, text))
}

// completeTrigger is completeTriggers for a command that takes one.
func completeTrigger(cmd *cobra.Command, args []string, prefix string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return completeTriggers(cmd, args, prefix)
}
