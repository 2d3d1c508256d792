package look

import (
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/sluiceml/sluice/cmd/sluice/kit"
	"github.com/sluiceml/sluice/cmd/sluice/run"
	"github.com/sluiceml/sluice/cmd/sluice/view"
	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/human"
	"github.com/sluiceml/sluice/store/record"
)

// askedRuns is how many open runs `list` asks what they wait for, the newest.
const askedRuns = 50

// NewList makes `sluice list`.
func NewList() *cobra.Command {
	var children bool
	var f filter
	cmd := &cobra.Command{
		Use:     "list",
		Aliases: []string{"ls"},
		Short:   "List the runs, newest first, and what is waiting for whom",
		Long: `List the runs, newest first, with their parameters, and what is waiting for
whom. The run of a child pipeline belongs to its parent's, and is only listed
by itself with --children; ` + "`sluice show`" + ` of the parent names it.

A run must match all filters; if --pipeline or --status is given several times,
it must match one of the values.`,
		Example: `  sluice list
  sluice list --pipeline spam-filter --status failed,canceled --since 7d
  sluice list -p epochs=8 --limit 10 --format json`,
		Args: cobra.NoArgs,
	}
	cmd.Flags().BoolVar(&children, "children", false, "also list the runs of child pipelines")
	f.add(cmd)
	format := kit.AddFormat(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := f.parse(cmd, time.Now()); err != nil {
			return err
		}
		var all []record.RunRecord
		s, err := kit.OpenStore(cmd)
		if err == nil {
			all, err = record.Runs(cmd.Context(), s)
		}
		if err != nil && (!errors.Is(err, kit.ErrNoRuns) || kit.StateGiven(cmd)) { // who names a folder expects runs in it
			return err
		}
		if !children {
			all, _ = record.Apart(all)
		}
		listed, silent := withWaiting(cmd, f.apply(all))
		return errors.Join(kit.Print(cmd, *format, listed, func(out io.Writer) error {
			switch {
			case len(all) == 0:
				_, err := fmt.Fprintln(out, kit.NoRuns(kit.StateDir(cmd)))
				return err
			case len(listed) == 0:
				_, err := fmt.Fprintf(out, "none of %s matches\n", human.Plural(int64(len(all)), "run"))
				return err
			}
			return view.ThemeOf(out).Runs(out, listed, time.Now())
		}), silent)
	}
	return cmd
}

// withWaiting asks the newest open runs what they wait for, where a Sluice carries them. The error says that it does not answer.
func withWaiting(cmd *cobra.Command, runs []record.RunRecord) ([]view.Listed, error) {
	listed := make([]view.Listed, len(runs))
	var open []int
	for i, r := range runs {
		listed[i].RunRecord = r
		if r.Status == spec.StatusRunning && len(open) < askedRuns {
			open = append(open, i)
		}
	}
	if len(open) == 0 {
		return listed, nil
	}
	s, leave, carried, silent := run.Attach(cmd)
	if s == nil {
		for _, i := range open {
			listed[i].Unattended = !carried
		}
		return listed, silent
	}
	defer leave()
	ctx := cmd.Context()
	for _, i := range open {
		state, err := s.State(ctx, runs[i].Run)
		if err != nil || state.Status != spec.StatusRunning {
			_, err = s.CloseLost(ctx, runs[i].Run)
			if now, loadErr := record.LoadRun(ctx, s.Store, runs[i].Run); err == nil && loadErr == nil { // it has ended meanwhile
				listed[i].RunRecord = now.RunRecord
			}
			continue
		}
		listed[i].Waits = state.Waits
		listed[i].Waiting, _ = s.Waiting(ctx, runs[i].Run, state)
	}
	return listed, nil
}
