package main

import (
	"errors"
	"time"

	"github.com/spf13/cobra"

	"github.com/sluiceml/sluice/activities"
	"github.com/sluiceml/sluice/activities/contract"
	"github.com/sluiceml/sluice/cmd/sluice/internal/view"
)

func newList() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the runs, newest first",
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
		out := cmd.OutOrStdout()
		if *format == "json" {
			return view.JSON(out, append([]contract.RunRecord{}, runs...))
		}
		return view.ThemeOf(out).Runs(out, runs, time.Now())
	}
	return cmd
}
