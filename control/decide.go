package control

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"go.temporal.io/sdk/client"

	"github.com/sluiceml/sluice/activities/contract"
	"github.com/sluiceml/sluice/connect"
	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/fault"
	"github.com/sluiceml/sluice/store/record"
)

const (
	// decideTimeout bounds the wait for the word on a decision.
	decideTimeout = 30 * time.Second
	// maxDepth is how deep child pipelines are looked into.
	maxDepth = 8
	// laneLimit is how many lanes a step may have: as many instances at once as `max_parallel` allows, in lanes of 64.
	laneLimit = 16
)

// Waiting lists what in a run, by its state, waits for a person now: steps, instances of steps, and those of child pipelines, which are
// runs of their own.
func (s *Session) Waiting(ctx context.Context, run string, state contract.RunState) ([]contract.ApprovalState, error) {
	return s.waiting(ctx, run, state.Steps, maxDepth)
}

func (s *Session) waiting(ctx context.Context, run string, steps []contract.StepState, depth int) ([]contract.ApprovalState, error) {
	var all []contract.ApprovalState
	for _, step := range steps {
		var found []contract.ApprovalState
		var err error
		switch {
		case step.Status == spec.StatusHold:
			var asked contract.ApprovalState
			asked, err = s.asked(ctx, run, step.ID)
			if asked.Decision == nil {
				found = []contract.ApprovalState{asked}
			}
		case step.Status != spec.StatusRunning:
		case step.Of > 0:
			var lanes []lane
			if lanes, err = s.lanes(ctx, run, step.ID, laneLimit); err == nil {
				for _, l := range lanes {
					instances, laneErr := s.waiting(ctx, run, l.Steps, depth)
					found, err = append(found, instances...), errors.Join(err, laneErr)
				}
			}
		case depth > 0 && contract.RunOf(step.Child) != "":
			child := contract.RunOf(step.Child)
			var state contract.RunState
			if state, err = s.State(ctx, child); err == nil {
				found, err = s.waiting(ctx, child, state.Steps, depth-1)
			}
		}
		if err != nil && !connect.IsNotFound(err) { // what is not found is about to begin, or has just ended
			return all, err
		}
		if err == nil {
			all = append(all, found...)
		}
	}
	return all, nil
}

// asked asks an approval what it asks.
func (s *Session) asked(ctx context.Context, run, step string) (contract.ApprovalState, error) {
	var state contract.ApprovalState
	return state, s.query(ctx, contract.ApprovalWorkflowID(run, step), &state)
}

// FindWaiting returns what of a run waits for a person: the step that is named or, with no name, the only one. The error, an invalid
// one, says what there is.
func (s *Session) FindWaiting(ctx context.Context, run, step string) (contract.ApprovalState, error) {
	state, err := s.State(ctx, run)
	if err != nil {
		return contract.ApprovalState{}, err
	}
	all, err := s.Waiting(ctx, run, state)
	if err != nil && !connect.IsNotFound(err) {
		return contract.ApprovalState{}, err
	}
	meant := slices.DeleteFunc(slices.Clone(all), func(a contract.ApprovalState) bool { return step != "" && a.Step != step })
	names := make([]string, len(all))
	for i, a := range all {
		names[i] = "`" + a.Step + "`"
		if a.Run != run {
			names[i] += " of the child run " + a.Run
		}
	}
	switch {
	case len(meant) == 1:
		return meant[0], nil
	case len(meant) > 1 && step != "":
		return contract.ApprovalState{}, invalid("%d steps named `%s` are waiting in runs of child pipelines; use the name of the run: %s", len(meant), step, strings.Join(names, ", "))
	case len(meant) > 1:
		return contract.ApprovalState{}, invalid("%d steps of %s are waiting; name one of %s", len(meant), run, strings.Join(names, ", "))
	case len(all) > 0:
		return contract.ApprovalState{}, invalid("`%s` of %s is not waiting for a decision; waiting are: %s", step, run, strings.Join(names, ", "))
	case step != "":
		if past, err := s.asked(ctx, run, step); err == nil && past.Decision != nil {
			return contract.ApprovalState{}, invalid("`%s` of %s has already been decided: %s", step, run, *past.Decision)
		}
	}
	return contract.ApprovalState{}, invalid("nothing in %s is waiting for a decision", run)
}

func invalid(format string, args ...any) error {
	return fault.Errorf(fault.Invalid, format, args...)
}

// Decide approves or rejects what waits. A decision that may not be is refused by the workflow, with an invalid error that says why.
func (s *Session) Decide(ctx context.Context, at contract.ApprovalState, d contract.Decide) (record.Decision, error) {
	var decision record.Decision
	err := s.update(ctx, decideTimeout, contract.ApprovalWorkflowID(at.Run, at.Step), contract.DecideUpdate, d, &decision)
	switch {
	case connect.IsNotFound(err):
		return decision, invalid("`%s` of %s is no longer waiting: someone else has decided, or the run has ended", at.Step, at.Run)
	case err != nil && fault.TypeOf(err) != fault.Invalid:
		return decision, fmt.Errorf("decide on %s of %s: %w", at.Step, at.Run, err)
	}
	return decision, err
}

// update has a workflow do something, and reads its answer.
func (s *Session) update(ctx context.Context, limit time.Duration, workflowID, name string, in, out any) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	handle, err := s.Client.UpdateWorkflow(ctx, client.UpdateWorkflowOptions{
		WorkflowID: workflowID, UpdateName: name, Args: []any{in}, WaitForStage: client.WorkflowUpdateStageCompleted,
	})
	if err != nil {
		return err
	}
	return handle.Get(ctx, out)
}

// lane is where the instances that run in one lane are.
type lane struct {
	contract.RunState
	id string
}

// lanes asks the lanes of a fanned-out step, at most limit of them, where their instances are.
func (s *Session) lanes(ctx context.Context, run, step string, limit int) ([]lane, error) {
	var all []lane
	for n := range limit {
		l := lane{id: contract.LaneWorkflowID(run, step, n)}
		err := s.query(ctx, l.id, &l.RunState)
		if connect.IsNotFound(err) {
			break // there are no more of them
		}
		if err != nil {
			return all, err
		}
		all = append(all, l)
	}
	return all, nil
}
