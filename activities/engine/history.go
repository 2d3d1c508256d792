package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/sluiceml/sluice/activities/contract"
	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/artifact"
	"github.com/sluiceml/sluice/store"
	"github.com/sluiceml/sluice/store/record"
)

const (
	// historyRuns is how many of a pipeline's runs a plan looks at.
	historyRuns = 20
	// historyTimes is how many executions of a step an estimate is made of.
	historyTimes = 5
)

// history is what earlier runs of a pipeline did.
type history struct {
	store *store.Store
	// last is the newest execution of each step that says what it was made of, and where it was.
	last map[string]record.StepRecord
	in   map[string]string
	// done are the newest executions of each step that took their time, newest first.
	done map[string][]record.StepRecord
	// workspaces are the files of runs that were looked at.
	workspaces map[string][]artifact.File
}

// loadHistory reads the newest runs of a pipeline. With against, steps are compared with that run alone.
func loadHistory(ctx context.Context, s *store.Store, pipeline, against string) (*history, error) {
	p := &history{
		store: s, last: map[string]record.StepRecord{}, in: map[string]string{}, done: map[string][]record.StepRecord{},
		workspaces: map[string][]artifact.File{},
	}
	if against != "" {
		run, err := record.LoadRun(ctx, s, against)
		if err != nil {
			return nil, err
		}
		p.remember(run)
	}
	runs, err := record.Runs(ctx, s)
	if err != nil {
		return nil, err
	}
	runs = slices.DeleteFunc(runs, func(r record.RunRecord) bool { return r.Pipeline != pipeline })
	for _, r := range runs[:min(historyRuns, len(runs))] {
		run, err := record.LoadRun(ctx, s, r.Run)
		if err != nil {
			return nil, err
		}
		if against == "" {
			p.remember(run)
		}
		for _, step := range run.Steps {
			if step.Status == spec.StatusSucceeded && step.ReusedFrom == "" && len(p.done[step.Step]) < historyTimes {
				p.done[step.Step] = append(p.done[step.Step], step)
			}
		}
	}
	return p, nil
}

// remember keeps those steps of a run that no newer one had.
func (p *history) remember(run record.Run) {
	for _, step := range run.Steps {
		if _, newer := p.in[step.Step]; !newer && (step.Key != "" || step.Of > 0) {
			p.last[step.Step], p.in[step.Step] = step, run.Run
		}
	}
}

// files are those of the workspace that a run was given.
func (p *history) files(ctx context.Context, run string) ([]artifact.File, error) {
	if files, known := p.workspaces[run]; known {
		return files, nil
	}
	var rec record.RunRecord
	if err := p.store.GetJSON(ctx, record.RunKey(run), &rec); err != nil {
		return nil, err
	}
	sub, err := record.LoadSubmission(ctx, p.store, rec.Submission)
	if err != nil {
		return nil, err
	}
	manifest, err := p.store.Manifest(ctx, sub.Workspace)
	p.workspaces[run] = manifest.Files
	return manifest.Files, err
}

// record is the newest execution of a step, or of an instance of one; nil when there is none.
func (p *history) record(ctx context.Context, at record.StepRef) (*record.StepRecord, error) {
	last, known := p.last[at.Step]
	switch {
	case !known:
		return nil, nil
	case at.Instance == nil:
		return &last, nil
	}
	at.Run = p.in[at.Step]
	err := p.store.GetJSON(ctx, record.Key(at), &last)
	if errors.Is(err, store.ErrNotFound) {
		return nil, nil
	}
	return &last, err
}

// addParts adds to the parts of a key some of those that the step was last done with.
func (p *history) addParts(ctx context.Context, at record.StepRef, parts map[string]string, names ...string) error {
	last, err := p.record(ctx, at)
	for _, name := range names {
		if last != nil && last.Parts[name] != "" {
			parts[name] = last.Parts[name]
		}
	}
	return err
}

// compare says why a step, or an instance of one, would be done, and not taken over; uncached is the reason when its results are not cached.
func (p *history) compare(
	ctx context.Context, at record.StepRef, cache spec.Cache, uncached, key string, parts map[string]string,
) (contract.StepPlan, error) {
	last, err := p.record(ctx, at)
	if err != nil {
		return contract.StepPlan{}, err
	}
	run := p.in[at.Step]
	switch {
	case last == nil:
		return contract.StepPlan{Action: contract.ActionRun, Reason: "it has not run before"}, nil
	case last.Key != key && last.Parts != nil:
		return contract.StepPlan{Action: contract.ActionRunChanged, From: run, Changed: differing(last.Parts, parts)}, nil
	case last.Status != spec.StatusSucceeded:
		return contract.StepPlan{Action: contract.ActionRun, Reason: fmt.Sprintf("it ended as %s in %s", last.Status, run)}, nil
	case !cache.Enabled:
		return contract.StepPlan{Action: contract.ActionRun, Reason: uncached}, nil
	case cache.MaxAge > 0:
		return contract.StepPlan{Action: contract.ActionRun, Reason: fmt.Sprintf("the result of %s is older than %s", run, cache.MaxAge)}, nil
	case at.Instance != nil: // of several that did the same, it has the last result
		return contract.StepPlan{Action: contract.ActionRun, Reason: "the cache has no result of this instance"}, nil
	}
	return contract.StepPlan{Action: contract.ActionRun, Reason: "the result of " + run + " no longer exists"}, nil
}

// estimate says how long a step that would be done took before, and what it cost: the middle of the last times. Of a fanned-out step,
// which takes less time where instances are taken over, it is the longest.
func (p *history) estimate(node spec.Node, look *contract.StepPlan) {
	done := p.done[node.ID]
	if len(done) == 0 || look.Action != contract.ActionRun && look.Action != contract.ActionRunChanged {
		return
	}
	seconds, cost := make([]float64, len(done)), make([]float64, len(done))
	for i, step := range done {
		seconds[i], cost[i] = step.EndedAt.Sub(step.StartedAt).Seconds(), step.CostUSD
	}
	slices.Sort(seconds)
	slices.Sort(cost)
	at := len(done) / 2
	if node.Fan != spec.FanNone {
		at = len(done) - 1
	}
	look.Seconds, look.CostUSD = max(0, seconds[at]), cost[at]
	if share := float64(look.Of-look.Cached) / float64(max(1, look.Of)); look.Of > 0 {
		look.Seconds, look.CostUSD = share*look.Seconds, share*look.CostUSD
	}
}
