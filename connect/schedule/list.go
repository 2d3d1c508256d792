package schedule

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/sluiceml/sluice/activities"
	"github.com/sluiceml/sluice/activities/contract"
	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/fault"
	"github.com/sluiceml/sluice/store"
	"github.com/sluiceml/sluice/store/record"
)

// Trigger is a trigger on the server and what became of it.
type Trigger struct {
	// Name is pipeline/trigger.
	Name string `json:"name"`
	Kind string `json:"kind"`
	// Spec as it was applied, and the digest of what it runs.
	Spec       spec.Trigger `json:"spec"`
	Submission string       `json:"submission"`
	// Paused, with the reason.
	Paused bool   `json:"paused"`
	Note   string `json:"note,omitempty"`
	// Next are the next times it starts a run, or looks.
	Next []time.Time `json:"next"`
	// Runs it started, newest first; of a trigger that watches, the newest only.
	Runs []Run `json:"runs"`
	// Skipped counts starts that were left out because a run was open, and Missed those that came too late to be made up for.
	Skipped int `json:"skipped,omitempty"`
	Missed  int `json:"missed,omitempty"`
	// Look is the last look of a trigger that watches.
	Look *Look `json:"look,omitempty"`
}

// Run is a run that a trigger started.
type Run struct {
	Run string    `json:"run"`
	At  time.Time `json:"at"`
	// Status as the run's record has it; Error its reason.
	Status spec.Status `json:"status"`
	Error  string      `json:"error,omitempty"`
}

// Look is what a trigger that watches saw, or why it could not see.
type Look struct {
	At    time.Time `json:"at"`
	Saw   string    `json:"saw,omitempty"`
	Error string    `json:"error,omitempty"`
}

// List describes all triggers on the server, by name.
func (s *Schedules) List(ctx context.Context) ([]Trigger, error) {
	ids, err := s.ids(ctx)
	if err != nil {
		return nil, err
	}
	all := []Trigger{}
	for _, id := range ids {
		t, err := s.Describe(ctx, id)
		switch {
		case fault.TypeOf(err) == fault.Invalid: // it went away meanwhile
		case err != nil:
			return nil, err
		default:
			all = append(all, t)
		}
	}
	return all, nil
}

// Describe describes the trigger named pipeline/trigger.
func (s *Schedules) Describe(ctx context.Context, id string) (Trigger, error) {
	if _, _, err := split(id); err != nil {
		return Trigger{}, err
	}
	desc, err := s.Client.ScheduleClient().GetHandle(ctx, id).Describe(ctx)
	if err != nil {
		return Trigger{}, explain(id, err)
	}
	m, err := s.markOf(desc)
	if err != nil {
		return Trigger{}, fmt.Errorf("trigger %s: %w", id, err)
	}
	t := Trigger{
		Name: id, Kind: m.Kind, Spec: m.Spec, Submission: m.Submission,
		Paused: desc.Schedule.State.Paused,
		Next:   append([]time.Time{}, desc.Info.NextActionTimes...), Runs: []Run{},
		Missed: desc.Info.NumActionsMissedCatchupWindow,
	}
	if t.Paused {
		t.Note, t.Next = desc.Schedule.State.Note, []time.Time{}
	}
	if m.Spec.Schedule == nil {
		return t, s.watched(ctx, m, &t)
	}
	t.Skipped = desc.Info.NumActionsSkippedOverlap
	for i := len(desc.Info.RecentActions) - 1; i >= 0; i-- {
		action := desc.Info.RecentActions[i]
		if action.StartWorkflowResult == nil {
			continue
		}
		run, err := s.triggered(ctx, contract.RunOf(action.StartWorkflowResult.WorkflowID), action.ActualTime)
		if err != nil {
			return t, err
		}
		t.Runs = append(t.Runs, run)
	}
	return t, nil
}

// triggered looks up how a run went. One without a record has only just been started, or waits for a worker.
func (s *Schedules) triggered(ctx context.Context, run string, at time.Time) (Run, error) {
	var rec record.RunRecord
	err := s.Store.GetJSON(ctx, record.RunKey(run), &rec)
	switch {
	case errors.Is(err, store.ErrNotFound):
		return Run{Run: run, At: at, Status: spec.StatusPending}, nil
	case err != nil:
		return Run{}, err
	}
	return Run{Run: run, At: rec.StartedAt, Status: rec.Status, Error: rec.Error}, nil
}

// watched adds what a trigger that watches saw and did.
func (s *Schedules) watched(ctx context.Context, m mark, t *Trigger) error {
	state, err := activities.LoadTriggerState(ctx, s.Store, m.Pipeline, m.Trigger)
	if err != nil {
		return err
	}
	last := m.Since // when the first look was to be made
	if state.Error != "" {
		t.Look, last = &Look{At: state.FailedAt, Error: state.Error}, state.FailedAt
	} else if !state.LookedAt.IsZero() {
		t.Look, last = &Look{At: state.LookedAt, Saw: state.Saw}, state.LookedAt
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
