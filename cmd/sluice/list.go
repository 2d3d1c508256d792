package main

import (
	"context"
	"errors"
	"time"

	"github.com/spf13/cobra"

	"github.com/sluiceml/sluice/activities"
	"github.com/sluiceml/sluice/activities/contract"
	"github.com/sluiceml/sluice/cmd/sluice/internal/view"
	"github.com/sluiceml/sluice/dsl"
)

// askedRuns is how many open runs `list` asks what they wait for, the newest.
const askedRuns = 50

func newList() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the runs, newest first, and what waits for whom",
		Example: `  sluice list
  sluice list --format json`,
		Args: cobra.NoArgs,
	}
	format := addFormat(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		var runs []contract.RunRecord
		s, err := openStore(cmd)
		if err == nil {
			runs, err = activities.Runs(cmd.Context(), s)
		}
		if err != nil && !errors.Is(err, errNoRuns) {
			return err
		}
		listed := withWaiting(cmd.Context(), stateOf(cmd), runs)
		out := cmd.OutOrStdout()
		if *format == "json" {
			return view.JSON(out, listed)
		}
		return view.ThemeOf(out).Runs(out, listed, time.Now())
	}
	return cmd
}

// withWaiting asks the newest open runs what they wait for, where a Sluice carries them.
func withWaiting(ctx context.Context, state string, runs []contract.RunRecord) []view.Listed {
	listed := make([]view.Listed, len(runs))
	var open []int
	for i, r := range runs {
		listed[i].RunRecord = r
		if r.Status == dsl.StatusRunning && len(open) < askedRuns {
			open = append(open, i)
		}
	}
	if len(open) == 0 {
		return listed
	}
	s, _ := attach(ctx, state)
	if s == nil {
		return listed
	}
	defer s.Close() //nolint:errcheck // it was only asked
	for _, i := range open {
		state, err := s.State(ctx, runs[i].Run)
		if err != nil { // it has ended meanwhile
			continue
		}
		listed[i].Waits = state.Waits
		all, _ := s.Waiting(ctx, runs[i].Run, state)
		for _, a := range all {
			if a.Run == runs[i].Run { // a child run is listed by itself
				listed[i].Waiting = append(listed[i].Waiting, a)
			}
		}
	}
	return listed
}
