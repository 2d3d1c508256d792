package worker

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/sluiceml/sluice/activities"
	"github.com/sluiceml/sluice/activities/contract"
	"github.com/sluiceml/sluice/dsl"
	"github.com/sluiceml/sluice/store"
)

// FindRun reads the records of the run a person names: its whole ID, a prefix that only it has, a pipeline's name (the newest run of
// it), or nothing (the newest run of all).
func FindRun(ctx context.Context, s *store.Store, name string) (activities.Run, error) {
	runs, err := named(ctx, s, name)
	if err != nil {
		return activities.Run{}, err
	}
	return activities.LoadRun(ctx, s, runs[0].Run)
}

// FindOpenRun is FindRun among the runs that have not ended: a pipeline's name is the newest of those. It is an invalid error when the
// name means none.
func FindOpenRun(ctx context.Context, s *store.Store, name string) (activities.Run, error) {
	runs, err := named(ctx, s, name)
	if err != nil {
		return activities.Run{}, err
	}
	open := slices.IndexFunc(runs, func(r contract.RunRecord) bool { return r.Status == dsl.StatusRunning })
	if open < 0 {
		newest := runs[0]
		return activities.Run{}, contract.Error(contract.ErrInvalid,
			fmt.Sprintf("no run %q is open: %s has ended already: %s", cmp.Or(name, newest.Pipeline), newest.Run, newest.Status), nil)
	}
	return activities.LoadRun(ctx, s, runs[open].Run)
}

// named lists the runs that a name means, newest first: one, or all those of a pipeline. There is one at least.
func named(ctx context.Context, s *store.Store, name string) ([]contract.RunRecord, error) {
	all, err := activities.Runs(ctx, s) // newest first
	if err != nil {
		return nil, err
	}
	if len(all) == 0 {
		return nil, contract.Error(contract.ErrInvalid, "there are no runs yet; start one with `sluice run`", nil)
	}
	if name == "" {
		return all, nil
	}
	var ofPipeline, begin []contract.RunRecord
	for _, r := range all {
		switch {
		case r.Run == name:
			return []contract.RunRecord{r}, nil
		case r.Pipeline == name:
			ofPipeline = append(ofPipeline, r)
		case strings.HasPrefix(r.Run, name):
			begin = append(begin, r)
		}
	}
	switch {
	case len(ofPipeline) > 0:
		return ofPipeline, nil
	case len(begin) == 1:
		return begin, nil
	case len(begin) == 0:
		return nil, contract.Error(contract.ErrInvalid, fmt.Sprintf("there is no run %q; `sluice list` shows those there are", name), nil)
	}
	return nil, contract.Error(contract.ErrInvalid,
		fmt.Sprintf("%q begins the name of %d runs, such as %s and %s", name, len(begin), begin[0].Run, begin[1].Run), nil)
}
