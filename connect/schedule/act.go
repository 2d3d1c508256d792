package schedule

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/client"

	"github.com/sluiceml/sluice/activities/contract"
	"github.com/sluiceml/sluice/connect"
	"github.com/sluiceml/sluice/internal/fault"
	"github.com/sluiceml/sluice/internal/poll"
)

// Pause keeps a trigger from starting runs, and its watch from checking.
func (s *Schedules) Pause(ctx context.Context, id, reason string) error {
	return s.withTrigger(ctx, id, func(h client.ScheduleHandle) error {
		if reason == "" { // that of an earlier pause stays
			before, err := h.Describe(ctx)
			if err != nil {
				return err
			}
			if before.Schedule.State.Paused {
				reason = before.Schedule.State.Note
			}
		}
		reason = cmp.Or(reason, "by hand")
		if err := errors.Join(h.Pause(ctx, client.SchedulePauseOptions{Note: reason}), s.recordPause(ctx, id, true, reason)); err != nil {
			return err
		}
		desc, err := h.Describe(ctx)
		if err != nil {
			return err
		}
		return s.endWatch(ctx, desc, "the trigger was paused")
	})
}

// Resume ends a pause. Times that passed during the pause are not made up for.
func (s *Schedules) Resume(ctx context.Context, id string) error {
	return s.withTrigger(ctx, id, func(h client.ScheduleHandle) error {
		before, err := h.Describe(ctx)
		if err != nil || !before.Schedule.State.Paused {
			return err
		}
		if err := errors.Join(h.Unpause(ctx, client.ScheduleUnpauseOptions{Note: "resumed"}), s.recordPause(ctx, id, false, "")); err != nil {
			return err
		}
		if m, err := s.markOf(before); err != nil || m.Spec.Schedule != nil {
			return err
		}
		return s.beginWatch(ctx, h, "the trigger was resumed")
	})
}

// endWatch ends the watch of a trigger, if there is one. The next watch does what this one was about to do.
func (s *Schedules) endWatch(ctx context.Context, desc *client.ScheduleDescription, why string) error {
	for _, running := range desc.Info.RunningWorkflows {
		if !contract.IsWatch(running.WorkflowID) {
			continue // a run
		}
		err := s.Client.TerminateWorkflow(ctx, running.WorkflowID, "", why)
		if err != nil && !connect.IsNotFound(err) {
			return fmt.Errorf("end %s: %w", running.WorkflowID, err)
		}
	}
	return nil
}

// beginWatch starts a watch of a trigger, which checks at once. It ends the previous watch, if there is one.
func (s *Schedules) beginWatch(ctx context.Context, h client.ScheduleHandle, why string) error {
	desc, err := h.Describe(ctx)
	if err != nil {
		return err
	}
	if err := s.endWatch(ctx, desc, why); err != nil {
		return err
	}
	return h.Trigger(ctx, client.ScheduleTriggerOptions{Overlap: enums.SCHEDULE_OVERLAP_POLICY_BUFFER_ONE}) // the schedule may not know of the end yet
}

// Backfill starts the runs that a schedule trigger would have started between from and to, both included, one after the other.
func (s *Schedules) Backfill(ctx context.Context, id string, from, to time.Time) error {
	t, err := s.Describe(ctx, id)
	switch {
	case err != nil:
		return err
	case t.Spec.Schedule == nil:
		return fault.Errorf(fault.Invalid, "%s is a %s trigger: only schedules can be backfilled", id, t.Kind)
	case to.Before(from):
		return fault.Errorf(fault.Invalid, "the last time %s is before the first time %s", to.Format(time.RFC3339), from.Format(time.RFC3339))
	}
	return s.withTrigger(ctx, id, func(h client.ScheduleHandle) error {
		return h.Backfill(ctx, client.ScheduleBackfillOptions{Backfill: []client.ScheduleBackfill{{
			Start: from.Add(-time.Millisecond), End: to, Overlap: enums.SCHEDULE_OVERLAP_POLICY_BUFFER_ALL, // Temporal excludes the start
		}}})
	})
}

// triggerPatience is how long Fire waits for the outcome of a start.
const triggerPatience = 10 * time.Second

// Fired is the outcome of a start by hand. Workflow is empty and Skipped is false if the start still waits for its turn.
type Fired struct {
	// Workflow is the ID of the workflow that was started, that of a run or of a watch.
	Workflow string
	// Skipped is set if a run of the trigger is open and its on_conflict says to skip further ones.
	Skipped bool
	// Paused is set if the trigger is paused, which it stays.
	Paused bool
}

// Fire makes a trigger act now: start a run, or check. Its on_conflict applies.
func (s *Schedules) Fire(ctx context.Context, id string) (Fired, error) {
	t, err := s.Describe(ctx, id)
	if err != nil {
		return Fired{}, err
	}
	h := s.Client.ScheduleClient().GetHandle(ctx, id)
	before, err := h.Describe(ctx)
	if err != nil {
		return Fired{}, s.explain(ctx, id, err)
	}
	start := func() error { return h.Trigger(ctx, client.ScheduleTriggerOptions{}) }
	if t.Spec.Schedule == nil {
		start = func() error { return s.beginWatch(ctx, h, "by hand") }
	}
	if err := start(); err != nil {
		return Fired{}, s.explain(ctx, id, err)
	}
	fired := Fired{Paused: t.Paused}
	ctx, cancel := context.WithTimeout(ctx, triggerPatience)
	defer cancel()
	for range poll.Every(ctx, 100*time.Millisecond) {
		now, err := h.Describe(ctx)
		switch {
		case err != nil && ctx.Err() == nil:
			return Fired{}, s.explain(ctx, id, err)
		case err == nil && now.Info.NumActions > before.Info.NumActions:
			if last := now.Info.RecentActions[len(now.Info.RecentActions)-1].StartWorkflowResult; last != nil {
				fired.Workflow = last.WorkflowID
			}
			return fired, nil
		case err == nil && now.Info.NumActionsSkippedOverlap > before.Info.NumActionsSkippedOverlap:
			fired.Skipped = true
			return fired, nil
		}
	}
	return fired, nil
}

// withTrigger calls act with the schedule of a trigger, after a check that Sluice created it.
func (s *Schedules) withTrigger(ctx context.Context, id string, act func(client.ScheduleHandle) error) error {
	if _, err := s.Describe(ctx, id); err != nil {
		return err
	}
	return s.explain(ctx, id, act(s.Client.ScheduleClient().GetHandle(ctx, id)))
}

// Stands reports whether a watch is still the current one of its trigger. It is not if the trigger is paused, has been changed or no longer
// exists.
func (s *Schedules) Stands(ctx context.Context, watch contract.WatchInput) (bool, error) {
	id := contract.ScheduleID(watch.Run.Name, watch.Run.Trigger.Name)
	desc, err := s.Client.ScheduleClient().GetHandle(ctx, id).Describe(ctx)
	switch {
	case connect.IsNotFound(err):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("describe trigger %s: %w", id, err)
	}
	m, err := s.markOf(desc)
	return err == nil && m.Digest == watch.Digest && !desc.Schedule.State.Paused, err
}
