package schedules

import (
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
	cmd := &cobra.Command{
		Use:   "pause PIPELINE/TRIGGER...",
		Short: "Keep triggers from starting runs",
		Long: `Keep triggers from starting runs, and from looking, until they are resumed. Runs that they started go on. Applying the pipeline again
does not end a pause.`,
		Example:           `  sluice schedule pause spam-filter/nightly --reason "the mail server moves"`,
		Args:              cobra.MinimumNArgs(1),
		ValidArgsFunction: completeTriggers,
	}
	cmd.Flags().StringVar(&reason, "reason", "", "why, for those who wonder")
	format := kit.AddFormat(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return eachTrigger(cmd, args, *format, "paused", func(s *schedule.Schedules, name string) error {
			return s.Pause(cmd.Context(), name, reason)
		})
	}
	return cmd
}

func newScheduleResume() *cobra.Command {
	cmd := &cobra.Command{
		Use:               "resume PIPELINE/TRIGGER...",
		Short:             "End the pause of triggers",
		Long:              `End the pause of triggers. What they would have started meanwhile is not made up for; ` + "`sluice schedule backfill`" + ` does that.`,
		Example:           `  sluice schedule resume spam-filter/nightly`,
		Args:              cobra.MinimumNArgs(1),
		ValidArgsFunction: completeTriggers,
	}
	format := kit.AddFormat(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return eachTrigger(cmd, args, *format, "resumed", func(s *schedule.Schedules, name string) error {
			return s.Resume(cmd.Context(), name)
		})
	}
	return cmd
}

func newScheduleDelete() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "delete PIPELINE/TRIGGER...",
		Short: "Delete triggers from the server",
		Long: `Delete triggers from the server, with what they remember of data they have seen. Runs that they started go on. A trigger that the
pipeline still declares is made anew when the pipeline is next applied.`,
		Example:           `  sluice schedule delete spam-filter/nightly`,
		Args:              cobra.MinimumNArgs(1),
		ValidArgsFunction: completeTriggers,
	}
	format := kit.AddFormat(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return eachTrigger(cmd, args, *format, "deleted", func(s *schedule.Schedules, name string) error {
			return s.Delete(cmd.Context(), name)
		})
	}
	return cmd
}

// done is what was done to a trigger.
type done struct {
	Trigger string `json:"trigger"`
	Done    string `json:"done"`
	Run     string `json:"run,omitempty"`
}

// eachTrigger acts on each of the triggers named, and says so.
func eachTrigger(cmd *cobra.Command, names []string, format, what string, act func(*schedule.Schedules, string) error) error {
	return withServer(cmd, func(s *control.Session) error {
		for _, name := range names {
			if err := act(s.Schedules(), name); err != nil {
				return err
			}
			if err := tell(cmd, format, done{Trigger: name, Done: what}); err != nil {
				return err
			}
		}
		return nil
	})
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
		Short: "Make a trigger act now",
		Long: `Make a trigger do now what it does at its times. A schedule starts a run, unless one is open and its on_conflict says otherwise. A
trigger that watches looks, and starts a run if it finds a reason.`,
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
			d := done{Trigger: args[0], Run: contract.RunOf(fired.Workflow)}
			switch {
			case fired.Skipped:
				d.Done = "skipped: a run of it is open"
			case d.Run != "":
				d.Done = "started"
			case fired.Workflow != "":
				d.Done = "looks now"
			default:
				d.Done = "waits for its turn"
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
		Short: "Start the runs that a schedule would have started in a time that is past",
		Long: `Start the runs that a schedule would have started between two times, both included, one after the other. Each has the time it is for as
run.scheduled_at and run.trigger.time.

A time is written 2026-01-31T03:00:00Z, or 2026-01-31, which is the beginning of that day in UTC.`,
		Example:           `  sluice schedule backfill spam-filter/nightly --from 2026-01-01 --to 2026-01-31`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: completeTrigger,
	}
	cmd.Flags().StringVar(&from, "from", "", "the first time; must be given")
	cmd.Flags().StringVar(&to, "to", "", "the last time; must be given")
	format := kit.AddFormat(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		first, err := parseTime(cmd, "from", from)
		if err != nil {
			return err
		}
		last, err := parseTime(cmd, "to", to)
		if err != nil {
			return err
		}
		if err := needUp(cmd); err != nil {
			return err
		}
		return withServer(cmd, func(s *control.Session) error {
			if err := s.Schedules().Backfill(cmd.Context(), args[0], first, last); err != nil {
				return err
			}
			return tell(cmd, *format, done{Trigger: args[0], Done: "its runs are started one after the other"})
		})
	}
	return cmd
}

// parseTime reads a time of the command line.
func parseTime(cmd *cobra.Command, flag, text string) (time.Time, error) {
	for _, form := range []string{time.RFC3339, time.DateOnly} {
		if at, err := time.Parse(form, strings.TrimSpace(text)); err == nil {
			return at, nil
		}
	}
	return time.Time{}, kit.UsageError(cmd, fmt.Sprintf("--%s is a time such as 2026-01-31T03:00:00Z or 2026-01-31, not %q", flag, text))
}

// completeTrigger is completeTriggers for a command that takes one.
func completeTrigger(cmd *cobra.Command, args []string, prefix string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return completeTriggers(cmd, args, prefix)
}
