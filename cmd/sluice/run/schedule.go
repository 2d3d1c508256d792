package run

import (
	"errors"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sluiceml/sluice/cmd/sluice/kit"
	"github.com/sluiceml/sluice/connect"
	"github.com/sluiceml/sluice/connect/state"
	"github.com/sluiceml/sluice/connect/state/holder"
	"github.com/sluiceml/sluice/control"
	"github.com/sluiceml/sluice/internal/fault"
)

// NewSchedule makes `sluice schedule`.
func NewSchedule() *cobra.Command {
	return kit.Group(&cobra.Command{
		Use:   "schedule",
		Short: "Start pipelines by schedules and other triggers",
		Long: `The triggers of a pipeline start runs at set times, for new data, for the value
of a metric or after another pipeline. They have no effect until they are
applied. They run the pipeline as it was then: apply it again after an edit.

Triggers are kept on the server, and fire while it is up: with ` + "`sluice up`" + `, or
with a worker on a cluster.`,
		Example: `  sluice schedule apply pipeline.yaml -e environments/prod.yaml
  sluice schedule list
  sluice schedule pause spam-filter/nightly --reason "the mail server is down"`,
	},
		newScheduleApply(), newScheduleList(), newScheduleShow(), newSchedulePause(), newScheduleResume(),
		newScheduleTrigger(), newScheduleBackfill(), newScheduleDelete())
}

// withServer acts in a session that does not work itself: what is due waits for a Sluice that is up.
func withServer(cmd *cobra.Command, act func(*control.Session) error) (err error) {
	ctx, stop := kit.Interruptible(cmd.Context())
	defer stop()
	s, err := control.Open(ctx, control.Options{StateDir: kit.StateDir(cmd), Waiting: kit.SayWaiting(cmd)})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	cmd.SetContext(ctx)
	return act(s)
}

// isUp reports whether another process is there to act on triggers. On a cluster that is not known.
func isUp(cmd *cobra.Command) (bool, error) {
	if connect.ClusterNamed() {
		return true, nil
	}
	if err := state.Check(kit.StateDir(cmd)); err != nil {
		return false, err
	}
	_, held, err := holder.Find(kit.StateDir(cmd))
	return held, err
}

// needUp refuses what would have no effect while nothing is up.
func needUp(cmd *cobra.Command) error {
	up, err := isUp(cmd)
	if err == nil && !up {
		err = fault.New(fault.Invalid, "no Sluice process is running\nhelp: start `sluice up`, then run this command again", nil)
	}
	return err
}

// completeTriggers offers the names of triggers. It asks a server that is up, and starts none.
func completeTriggers(cmd *cobra.Command, args []string, prefix string) ([]string, cobra.ShellCompDirective) {
	if up, err := isUp(cmd); err != nil || !up {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var names []string
	err := withServer(cmd, func(s *control.Session) error {
		all, err := s.Schedules().List(cmd.Context())
		for _, t := range all {
			if strings.HasPrefix(t.Name, prefix) && !slices.Contains(args, t.Name) {
				names = append(names, t.Name+"\t"+t.Kind)
			}
		}
		return err
	})
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}
