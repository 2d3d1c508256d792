package worker

import (
	"context"
	"fmt"
	"strings"

	"github.com/sluiceml/sluice/activities"
	"github.com/sluiceml/sluice/activities/contract"
	"github.com/sluiceml/sluice/store"
)

// FindRun reads the records of the run a person names: its whole ID, a prefix that only it has, a pipeline's name (the newest run of
// it), or nothing (the newest run of all).
func FindRun(ctx context.Context, s *store.Store, name string) (activities.Run, error) {
	all, err := activities.Runs(ctx, s)
	if err != nil {
		return activities.Run{}, err
	}
	if len(all) == 0 {
		return activities.Run{}, contract.Error(contract.ErrInvalid, "there are no runs yet; start one with `sluice run`", nil)
	}
	if name == "" {
		return activities.LoadRun(ctx, s, all[0].Run)
	}
	var matches []string
	for _, r := range all { // newest first
		if r.Run == name || r.Pipeline == name {
			return activities.LoadRun(ctx, s, r.Run)
		}
		if strings.HasPrefix(r.Run, name) {
			matches = append(matches, r.Run)
		}
	}
	switch len(matches) {
	case 0:
		return activities.Run{}, contract.Error(contract.ErrInvalid, fmt.Sprintf("there is no run %q; `sluice list` shows those there are", name), nil)
	case 1:
		return activities.LoadRun(ctx, s, matches[0])
	}
	return activities.Run{}, contract.Error(contract.ErrInvalid,
		fmt.Sprintf("%q begins the name of %d runs, such as %s and %s", name, len(matches), matches[0], matches[1]), nil)
}
