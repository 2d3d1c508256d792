package run

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/sluiceml/sluice/activities/contract"
	"github.com/sluiceml/sluice/cmd/sluice/kit"
	"github.com/sluiceml/sluice/cmd/sluice/view"
	"github.com/sluiceml/sluice/connect"
	"github.com/sluiceml/sluice/control"
)

func newScheduleList() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "list",
		Aliases: []string{"ls"},
		Short:   "List the triggers, with their next time and last run",
		Example: `  sluice schedule list
  sluice schedule list --format json`,
		Args: cobra.NoArgs,
	}
	format := kit.AddFormat(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		triggers := []contract.Trigger{}
		if _, err := os.Stat(kit.StateDir(cmd)); !errors.Is(err, fs.ErrNotExist) || connect.ClusterNamed() { // looking leaves no traces
			err := withServer(cmd, func(s *control.Session) (err error) {
				triggers, err = s.Schedules().List(cmd.Context())
				return err
			})
			if err != nil {
				return err
			}
		}
		return kit.Print(cmd, *format, triggers, func(out io.Writer) error { return view.ThemeOf(out).Triggers(out, triggers, time.Now()) })
	}
	return cmd
}

func newScheduleShow() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "show PIPELINE/TRIGGER",
		Short: "Show a trigger: its condition, state, next times and runs",
		Example: `  sluice schedule show spam-filter/nightly
  sluice schedule show spam-filter/drift --format json | jq .look`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: completeTrigger,
	}
	format := kit.AddFormat(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return withServer(cmd, func(s *control.Session) error {
			trigger, err := s.Schedules().Describe(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			return kit.Print(cmd, *format, trigger, func(out io.Writer) error { return view.ThemeOf(out).Trigger(out, trigger) })
		})
	}
	return cmd
}
