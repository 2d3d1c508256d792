package kit

import (
	"errors"
	"io/fs"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sluiceml/sluice/connect/state"
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
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	s, err := OpenStore(cmd)
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	runs, err := record.Runs(cmd.Context(), s)
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
