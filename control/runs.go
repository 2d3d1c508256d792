package control

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/sluiceml/sluice/activities/contract"
	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/fault"
	"github.com/sluiceml/sluice/internal/poll"
	"github.com/sluiceml/sluice/internal/suggest"
	"github.com/sluiceml/sluice/store"
	"github.com/sluiceml/sluice/store/record"
)

// FindRun reads the records of the run a person names: its whole ID, a prefix that only it has, a pipeline's name (the newest run of
// it), or nothing (the newest run of all). Runs of child pipelines count only where nothing else is meant.
func FindRun(ctx context.Context, s *store.Store, name string) (record.Run, error) {
	runs, err := named(ctx, s, name)
	if err != nil {
		return record.Run{}, err
	}
	return record.LoadRun(ctx, s, runs[0].Run)
}

// FindOpenRuns lists the runs that a person means by a name and that have not ended, newest first: one, or several of a pipeline. It is
// an invalid error when there is none.
func FindOpenRuns(ctx context.Context, s *store.Store, name string) ([]record.RunRecord, error) {
	runs, err := named(ctx, s, name)
	if err != nil {
		return nil, err
	}
	newest := runs[0]
	open := slices.DeleteFunc(runs, func(r record.RunRecord) bool { return r.Status != spec.StatusRunning })
	if len(open) == 0 {
		return nil, fault.Errorf(fault.Invalid,
			"no run %q is open: %s has already ended: %s", cmp.Or(name, newest.Pipeline), newest.Run, newest.Status)
	}
	return open, nil
}

// OpenRuns counts the runs that have not ended and that the server of this session has, without those of child pipelines.
func (s *Session) OpenRuns(ctx context.Context) (open int, err error) {
	all, err := record.Runs(ctx, s.Store)
	if err != nil {
		return 0, err
	}
	own, _ := record.Apart(all)
	for _, r := range own {
		if r.Status != spec.StatusRunning {
			continue
		}
		isHere, err := s.HasOpen(ctx, contract.RunWorkflowID(r.Run))
		if err != nil {
			return 0, fmt.Errorf("ask for run %s: %w", r.Run, err)
		}
		if isHere {
			open++
		}
	}
	return open, nil
}

// recordedWithin bounds how long it takes until a run that has begun is recorded: its workflow does that first.
const recordedWithin = 5 * time.Second

// named lists the runs that a name means, newest first: one, or all those of a pipeline. There is one at least. A run that began a moment ago
// is waited for: who started it knows its ID before there is a record.
func named(ctx context.Context, s *store.Store, name string) ([]record.RunRecord, error) {
	for now := range poll.Every(ctx, 100*time.Millisecond) {
		found, err := recorded(ctx, s, name)
		if age := now.Sub(begunAt(name)); err == nil || fault.TypeOf(err) != fault.Invalid || age < 0 || age > recordedWithin {
			return found, err
		}
	}
	return nil, context.Cause(ctx)
}

// recorded is named, by what is recorded now.
func recorded(ctx context.Context, s *store.Store, name string) ([]record.RunRecord, error) {
	all, err := record.Runs(ctx, s) // newest first
	if err != nil {
		return nil, err
	}
	if len(all) == 0 {
		return nil, fault.Errorf(fault.Invalid, "there are no runs yet in %s\nhelp: start one with `sluice run PIPELINE`", s.URL())
	}
	return Named(all, name)
}

// Named lists those of all runs, newest first, that a name means: one, or all those of a pipeline. There is one at least, or it is an
// invalid error.
func Named(all []record.RunRecord, name string) ([]record.RunRecord, error) {
	own, children := record.Apart(all)
	if name == "" && len(own) > 0 {
		return own, nil
	}
	if found, err := matching(own, name); found != nil || err != nil {
		return found, err
	}
	if found, err := matching(children, name); found != nil || err != nil {
		return found, err
	}
	var known []string
	for _, r := range own {
		known = append(known, r.Pipeline, r.Run)
	}
	return nil, fault.Errorf(fault.Invalid, "there is no run %q; `sluice list` lists the runs%s", name, suggest.HelpNear(name, known))
}

// matching lists those of the runs that a name means; none is no error.
func matching(runs []record.RunRecord, name string) ([]record.RunRecord, error) {
	var ofPipeline, begin []record.RunRecord
	for _, r := range runs {
		switch {
		case r.Run == name:
			return []record.RunRecord{r}, nil
		case r.Pipeline == name:
			ofPipeline = append(ofPipeline, r)
		case strings.HasPrefix(r.Run, name):
			begin = append(begin, r)
		}
	}
	switch {
	case len(ofPipeline) > 0:
		return ofPipeline, nil
	case len(begin) <= 1:
		return begin, nil
	}
	return nil, fault.Errorf(fault.Invalid, "%q is a prefix of %d runs, such as %s and %s", name, len(begin), begin[0].Run, begin[1].Run)
}
