package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/sluiceml/sluice/activities"
	"github.com/sluiceml/sluice/cmd/sluice/internal/view"
	"github.com/sluiceml/sluice/dsl"
	"github.com/sluiceml/sluice/worker"
	"github.com/sluiceml/sluice/worker/holder"
)

func newShow() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "show [RUN]",
		Short: "Show a run: its steps, gates with the values they saw, and outputs",
		Long: `Show a run: its steps, gates with the values they saw, outputs, attempts and times. RUN is a run's name or the beginning of it, or a
pipeline's name, which means its newest run; without RUN the newest run of all is shown.

Records are kept in the store: nothing need be running.`,
		Example: `  sluice show
  sluice show spam-filter
  sluice show --format json | jq .steps.fit.outputs.generations`,
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: completeRuns,
	}
	format := addFormat(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		run, err := findRun(cmd, args)
		if err != nil {
			return err
		}
		var doing map[string]view.Detail
		carried := true
		if run.Status == dsl.StatusRunning {
			doing, carried = refresh(cmd.Context(), stateOf(cmd), run)
		}
		out, now := cmd.OutOrStdout(), time.Now()
		if *format == "json" {
			return view.JSON(out, view.NewRecord(run.RunRecord, run.Steps, now))
		}
		if err := view.ThemeOf(out).Show(out, run.RunRecord, run.Steps, doing, now); err != nil || carried {
			return err
		}
		_, err = fmt.Fprintln(out, "\nno Sluice carries this run now: it goes on with the command that started it, or with `sluice up`")
		return err
	}
	return cmd
}

// refresh asks a run that is under way where its steps are now and what they do, and reports whether any Sluice is there to carry it
// on. Without one its record is all there is to know.
func refresh(ctx context.Context, state string, run activities.Run) (doing map[string]view.Detail, carried bool) {
	if _, held, err := holder.Find(state); !worker.ClusterNamed() && (err != nil || !held) {
		return nil, err != nil
	}
	s, err := worker.Open(ctx, worker.Options{StateDir: state})
	if err != nil {
		return nil, true
	}
	defer s.Close() //nolint:errcheck // it was only asked
	now, err := s.State(ctx, run.Run)
	if err != nil {
		return nil, true
	}
	view.Overlay(run.Steps, now)
	doing = map[string]view.Detail{}
	for _, step := range now.Steps {
		if step.Status != dsl.StatusRunning {
			continue
		}
		if d, err := s.Detail(ctx, run.Run, step); err == nil { // else it has only just begun, or ended
			doing[step.ID] = describe(d)
		}
	}
	return doing, true
}
