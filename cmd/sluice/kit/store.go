package kit

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sluiceml/sluice/connect"
	"github.com/sluiceml/sluice/connect/state"
	"github.com/sluiceml/sluice/connect/state/holder"
	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/fault"
	"github.com/sluiceml/sluice/store"
	"github.com/sluiceml/sluice/store/record"
)

// ErrNoRuns says that nothing was ever run with a state folder.
var ErrNoRuns = errors.New("no runs")

// OpenStore opens the store of the command's state folder, with nothing running. It does not make one: looking leaves no traces.
func OpenStore(cmd *cobra.Command) (*store.Store, error) {
	stateDir := StateDir(cmd)
	if err := state.Check(stateDir); err != nil {
		return nil, err
	}
	if _, err := os.Stat(stateDir); errors.Is(err, fs.ErrNotExist) && os.Getenv(state.StoreVariable) == "" {
		if StateGiven(cmd) {
			return nil, fault.New(fault.Invalid, fmt.Sprintf("the state folder %s does not exist\n"+
				"help: check --state, or start a run with it: `sluice run PIPELINE --state %[1]s` creates the folder", stateDir), ErrNoRuns)
		}
		return nil, fault.New(fault.Invalid, NoRuns(stateDir), ErrNoRuns)
	}
	if os.Getenv(state.StoreVariable) == "" && state.Unused(stateDir) { // opening its store would make it
		return nil, fault.New(fault.Invalid, NoRuns(stateDir), ErrNoRuns)
	}
	return state.OpenStore(cmd.Context(), stateDir)
}

// OpenStoreOf is OpenStore for a command on what only runs make: without any run the error says that there is none of that.
func OpenStoreOf(cmd *cobra.Command, what string) (*store.Store, error) {
	s, err := OpenStore(cmd)
	if errors.Is(err, ErrNoRuns) {
		return nil, Invalidf("there are no %s yet: there are no runs in %s", what, StateDir(cmd))
	}
	return s, err
}

// NoRuns says that the store of a state folder has no runs, and where there may be some: in a folder above, where the command was not called.
func NoRuns(stateDir string) string {
	dir, err := filepath.Abs(stateDir)
	if err != nil {
		dir = stateDir
	}
	text := "there are no runs yet in " + dir
	url, err := state.StoreURL(stateDir)
	switch {
	case err == nil && url != "file://"+filepath.Join(dir, "store"):
		return "there are no runs yet in " + url + "\nhelp: start one with `sluice run PIPELINE`"
	case connect.ClusterNamed():
		return text + ", where this command has its store\nhelp: set " + state.StoreVariable + " to the store of the cluster's workers"
	}
	if filepath.IsAbs(stateDir) {
		return text + "\nhelp: start one with `sluice run PIPELINE`"
	}
	for at := filepath.Dir(dir); at != filepath.Dir(at); at = filepath.Dir(at) {
		above := filepath.Join(filepath.Dir(at), stateDir)
		if _, err := os.Stat(filepath.Join(above, holder.LockFile)); err == nil {
			return text + "\nhelp: " + above + " is a state folder: go to " + filepath.Dir(above) + ", or add `--state " + above + "`"
		}
	}
	return text + "\nhelp: start one with `sluice run PIPELINE`"
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
