package main

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/sluiceml/sluice/activities"
	"github.com/sluiceml/sluice/store"
	"github.com/sluiceml/sluice/worker"
)

// openStore opens the store of the command's state folder, with nothing running.
func openStore(cmd *cobra.Command) (*store.Store, error) {
	return worker.OpenStore(cmd.Context(), stateOf(cmd))
}

// findRun reads the run that the first argument names; without one, the newest.
func findRun(cmd *cobra.Command, args []string) (activities.Run, error) {
	s, err := openStore(cmd)
	if err != nil {
		return activities.Run{}, err
	}
	name := ""
	if len(args) > 0 {
		name = args[0]
	}
	return worker.FindRun(cmd.Context(), s, name)
}

// completeRuns offers the runs of the state folder for a first argument.
func completeRuns(cmd *cobra.Command, args []string, prefix string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	s, err := openStore(cmd)
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	runs, err := activities.Runs(cmd.Context(), s)
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	var names []string
	for _, r := range runs {
		if strings.HasPrefix(r.Run, prefix) {
			names = append(names, r.Run+"\t"+string(r.Status))
		}
	}
	return names, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveKeepOrder
}
