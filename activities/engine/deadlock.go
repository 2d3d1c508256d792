package engine

import (
	"context"
	"strings"

	"github.com/sluiceml/sluice/activities/contract"
	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/store/record"
)

// Deadlock returns why a run that waits for a group would wait forever: because the run that holds it, or one that this one waits for, has a
// child that waits for a group that a run above the first one holds. It is empty if that is not so.
func (e *Engine) Deadlock(ctx context.Context, in contract.DeadlockInput) (why string, err error) {
	seen := map[string]bool{} // groups
	var follow func(run, group string) ([]string, error)
	follow = func(run, group string) ([]string, error) {
		by, err := e.Holder(ctx, group)
		if err != nil || by == "" || by == run || seen[group] {
			return nil, err
		}
		seen[group] = true
		hop := []string{"run " + run + " waits for the concurrency group `" + group + "`, which run " + by + " holds"}
		if contract.Within(in.Run, by) {
			return hop, nil
		}
		waiting, err := e.waitingBelow(ctx, by)
		if err != nil {
			return nil, err
		}
		for child, group := range waiting {
			if rest, err := follow(child, group); err != nil || rest != nil {
				return append(hop, rest...), err
			}
		}
		return nil, nil
	}
	hops, err := follow(in.Run, in.Group)
	if err != nil || hops == nil {
		return "", err
	}
	return "it would wait forever: " + strings.Join(hops, ", and ") + ": let all pipelines take the groups in the same order", nil
}

// waitingBelow returns the open runs below a run that have a concurrency group and wait for their turn, with their groups. Some may hold it.
func (e *Engine) waitingBelow(ctx context.Context, run string) (map[string]string, error) {
	below, err := record.Below(ctx, e.Store, run)
	if err != nil {
		return nil, err
	}
	waiting := map[string]string{}
	for _, rec := range below {
		if rec.Status != spec.StatusRunning {
			continue
		}
		sub, err := e.Submission(ctx, rec.Submission)
		if err != nil {
			return nil, err
		}
		group, err := sub.Program.ConcurrencyGroup(sub.ParamValues)
		if err != nil || group == "" || sub.Program.Pipeline().Concurrency.OnConflict != spec.OnConflictQueue {
			continue // it has no group, or does not wait
		}
		if open, err := e.Open(ctx, rec.Run); err != nil {
			return nil, err
		} else if open {
			waiting[rec.Run] = group
		}
	}
	return waiting, nil
}
