package main

import (
	"errors"
	"io/fs"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sluiceml/sluice/activities"
	"github.com/sluiceml/sluice/activities/contract"
	"github.com/sluiceml/sluice/store"
	"github.com/sluiceml/sluice/worker"
)

// errNoRuns says that nothing was ever run with a state folder.
var errNoRuns = contract.Error(contract.ErrInvalid, "there are no runs yet; start one with `sluice run PIPELINE`", nil)

// openStore opens the store of the command's state folder, with nothing running. It does not make one: looking leaves no traces.
func openStore(cmd *cobra.Command) (*store.Store, error) {
	state := stateOf(cmd)
	if _, err := os.Stat(state); errors.Is(err, fs.ErrNotExist) && os.Getenv(worker.StoreVariable) == "" {
		return nil, errNoRuns
	}
	return worker.OpenStore(cmd.Context(), state)
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
