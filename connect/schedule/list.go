package schedule

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/sluiceml/sluice/activities/contract"
	"github.com/sluiceml/sluice/activities/watch"
	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/fault"
	"github.com/sluiceml/sluice/store"
	"github.com/sluiceml/sluice/store/record"
)

// List describes all triggers on the server, by name.
func (s *Schedules) List(ctx context.Context) ([]contract.Trigger, error) {
	ids, err := s.ids(ctx)
	if err != nil {
		return nil, err
	}
	all := []contract.Trigger{}
	for _, id := range ids {
		t, _, err := s.describe(ctx, id)
		switch {
		case fault.TypeOf(err) == fault.Invalid: // it was deleted in the meantime
		case err != nil:
			return nil, err
		default:
			all = append(all, t)
		}
	}
	return all, nil
}

// shownRuns is how many runs of a trigger are listed: those of a schedule that Temporal remembers are as many.
const shownRuns = 10

// Describe describes the trigger named pipeline/trigger, with its newest runs.
func (s *Schedules) Describe(ctx context.Context, id string) (contract.Trigger, error) {
	t, m, err := s.describe(ctx, id)
	if err != nil || m.Spec.Schedule != nil {
		return t, err
	}
	runs, err := record.Runs(ctx, s.Store)
	for _, r := range runs {
		known := slices.ContainsFunc(t.Runs, func(k contract.TriggerRun) bool { return k.Run == r.Run })
		if r.Pipeline == m.Pipeline && r.Trigger.Name == m.Trigger && !known && len(t.Runs) < shownRuns {
			t.Runs = append(t.Runs, contract.TriggerRun{Run: r.Run, At: r.StartedAt, Status: r.Status, Error: r.Error})
		}
	}
	return t, err
}

// describe describes a trigger. Of one that watches, it knows only the newest run: the others are not looked for among all records.
func (s *Schedules) describe(ctx context.Context, id string) (contract.Trigger, mark, error) {
	if _, _, err := split(id); err != nil {
		return contract.Trigger{}, mark{}, err
	}
	desc, err := s.Client.ScheduleClient().GetHandle(ctx, id).Describe(ctx)
	if err != nil {
		return contract.Trigger{}, mark{}, s.explain(ctx, id, err)
	}
	m, err := s.markOf(desc)
	if err != nil {
		return contract.Trigger{}, m, fmt.Errorf("trigger %s: %w", id, err)
	}
	t := contract.Trigger{
		Name: id, Kind: m.Kind, Spec: m.Spec, Submission: m.Submission,
		Paused: desc.Schedule.State.Paused,
		Next:   append([]time.Time{}, desc.Info.NextActionTimes...), Runs: []contract.TriggerRun{},
		Missed: desc.Info.NumActionsMissedCatchupWindow,
	}
	if t.Paused {
		t.Note, t.Next = desc.Schedule.State.Note, []time.Time{}
	}
	if m.Spec.Schedule == nil {
		return t, m, s.watched(ctx, m, &t)
	}
	t.Skipped = desc.Info.NumActionsSkippedOverlap
	for i := len(desc.Info.RecentActions) - 1; i >= 0; i-- {
		action := desc.Info.RecentActions[i]
		if action.StartWorkflowResult == nil {
			continue
		}
		run, err := s.triggered(ctx, contract.RunOf(action.StartWorkflowResult.WorkflowID), action.ActualTime)
		if err != nil {
			return t, m, err
		}
		t.Runs = append(t.Runs, run)
	}
	return t, m, nil
}

// triggered looks up how a run went. A run without a record has only just been started, or waits for a worker.
func (s *Schedules) triggered(ctx context.Context, run string, at time.Time) (contract.TriggerRun, error) {
	var rec record.RunRecord
	err := s.Store.GetJSON(ctx, record.RunKey(run), &rec)
	switch {
	case errors.Is(err, store.ErrNotFound):
		return contract.TriggerRun{Run: run, At: at, Status: spec.StatusPending}, nil
	case err != nil:
		return contract.TriggerRun{}, err
	}
	return contract.TriggerRun{Run: run, At: rec.StartedAt, Status: rec.Status, Error: rec.Error}, nil
}

// watched adds what the watch of a trigger last saw, and the run that it started.
func (s *Schedules) watched(ctx context.Context, m mark, t *contract.Trigger) error {
	state, err := watch.LoadState(ctx, s.Store, m.Pipeline, m.Trigger)
	if err != nil {
		return err
	}
	last := m.Since // when the first check was due
	if state.Error != "" {
		t.Look, last = &contract.TriggerLook{At: state.FailedAt, Error: state.Error}, state.FailedAt
	} else if !state.LookedAt.IsZero() {
		t.Look, last = &contract.TriggerLook{At: state.LookedAt, Saw: state.Saw}, state.LookedAt
	}
	if !t.Paused {
		t.Next = []time.Time{last.Add(time.Duration(m.Spec.Interval()))}
	}
	if state.Run != "" {
		run, err := s.triggered(ctx, state.Run, state.FiredAt)
		if err != nil {
			return err
		}
		t.Runs = append(t.Runs, run)
	}
	return nil
}
