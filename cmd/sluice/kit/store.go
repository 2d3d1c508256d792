package kit

import (
	"errors"
	"io/fs"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sluiceml/sluice/connect/state"
	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/fault"
	"github.com/sluiceml/sluice/store"
	"github.com/sluiceml/sluice/store/record"
)

// ErrNoRuns says that nothing was ever run with a state folder.
var ErrNoRuns = fault.New(fault.Invalid, "there are no runs yet; start one with `sluice run PIPELINE`", nil)

// OpenStore opens the store of the command's state folder, with nothing running. It does not make one: looking leaves no traces.
func OpenStore(cmd *cobra.Command) (*store.Store, error) {
	stateDir := StateDir(cmd)
	if _, err := os.Stat(stateDir); errors.Is(err, fs.ErrNotExist) && os.Getenv(state.StoreVariable) == "" {
		return nil, ErrNoRuns
	}
	return state.OpenStore(cmd.Context(), stateDir)
}

// CompleteRuns offers the runs of the state folder for a first argument.
func CompleteRuns(cmd *cobra.Command, args []string, prefix string) ([]string, cobra.ShellCompDirective) {
	return completeRuns(cmd, args, prefix, func(record.RunRecord) bool { return true })
}

// CompleteOpenRuns offers those that have not ended.
func CompleteOpenRuns(cmd *cobra.Command, args []string, prefix string) ([]string, cobra.ShellCompDirective) {
	return completeRuns(cmd, args, prefix, func(r record.RunRecord) bool { return r.Status == spec.StatusRunning })
}

func completeRuns(cmd *cobra.Command, args []string, prefix string, offer func(record.RunRecord) bool) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	runs, err := allRuns(cmd)
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	var names []string
	for _, r := range runs {
		if strings.HasPrefix(r.Run, prefix) && offer(r) {
			names = append(names, r.Run+"\t"+string(r.Status))
		}
	}
	return names, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveKeepOrder
}

// CompletePipelines offers the pipelines that have runs.
func CompletePipelines(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
	runs, err := allRuns(cmd)
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	var names []string
	for _, r := range runs {
		names = append(names, r.Pipeline)
	}
	slices.Sort(names)
	return slices.Compact(names), cobra.ShellCompDirectiveNoFileComp
}

func allRuns(cmd *cobra.Command) ([]record.RunRecord, error) {
	s, err := OpenStore(cmd)
	if err != nil {
		return nil, err
	}
	return record.Runs(cmd.Context(), s)
}
