package control

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/api/enums/v1"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"

	"github.com/sluiceml/sluice/activities"
	"github.com/sluiceml/sluice/activities/contract"
	"github.com/sluiceml/sluice/connect"
	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/fault"
	"github.com/sluiceml/sluice/store/record"
	"github.com/sluiceml/sluice/training/protocol"
)

// queryTimeout bounds one question to a workflow: without a worker nobody answers.
const queryTimeout = 5 * time.Second

// State asks a run where it is. A run that was ended from outside is not said to go on.
func (s *Session) State(ctx context.Context, run string) (state contract.RunState, err error) {
	asking, cancel := context.WithTimeout(ctx, queryTimeout)
	defer cancel()
	id := contract.RunWorkflowID(run)
	answer, err := s.Client.QueryWorkflowWithOptions(asking, &client.QueryWorkflowWithOptionsRequest{
		WorkflowID: id, QueryType: contract.StateQuery, QueryRejectCondition: enums.QUERY_REJECT_CONDITION_NOT_OPEN,
	})
	switch {
	case err != nil:
		return state, fmt.Errorf("ask %s: %w", id, err)
	case answer.QueryRejected == nil:
		return state, answer.QueryResult.Get(&state)
	}
	err = s.query(ctx, id, &state)
	if state.Status == spec.StatusRunning { // it had no time to say how it ended
		state.Status = spec.StatusFailed
	}
	return state, err
}

func (s *Session) query(ctx context.Context, workflow string, out any) error {
	ctx, cancel := context.WithTimeout(ctx, queryTimeout)
	defer cancel()
	value, err := s.Client.QueryWorkflow(ctx, workflow, "", contract.StateQuery)
	if err != nil {
		return fmt.Errorf("ask %s: %w", workflow, err)
	}
	return value.Get(out)
}

// Training asks the training of a step, or of an instance such as fit.3, where it is.
func (s *Session) Training(ctx context.Context, run, step string) (contract.TrainState, error) {
	var state contract.TrainState
	err := s.query(ctx, contract.TrainWorkflowID(run, step), &state)
	return state, err
}

// Detail is what a running step says of itself now.
type Detail struct {
	// Text and Share are the step's own progress line; Share is negative when unknown. Of a training, the text is what its workflow does
	// between two generations or tries again, and why.
	protocol.Progress
	// Train is the state of a training's child workflow, and Rollout that of a rollout's. It is set, and empty, even when the workflow does
	// not answer.
	Train *contract.TrainState
	// TrainNodes is what the nodes of a training said last.
	TrainNodes []protocol.TrainProgress
	Rollout    *contract.RolloutState
	// Child is where the run of a child pipeline is.
	Child *contract.RunState
	// Instances are some of those of a fanned-out step that run or wait now.
	Instances []InstanceDetail
	// Held is true when something within the step waits for a person.
	Held bool
}

// InstanceDetail is where an instance of a fanned-out step is.
type InstanceDetail struct {
	contract.StepState
	Detail Detail
}

// Detail asks a running step how far it is: its child workflow for its state, and Temporal for the newest heartbeat details, since
// progress never enters history.
func (s *Session) Detail(ctx context.Context, run string, step contract.StepState) (Detail, error) {
	if step.Of > 0 {
		return s.instances(ctx, run, step)
	}
	return s.detail(ctx, contract.RunWorkflowID(run), step)
}

const (
	// shownLanes is how many lanes of a fanned-out step are asked, and shownInstances how many instances: each question costs the worker
	// a little.
	shownLanes     = 2
	shownInstances = 3
)

// instances asks some of those of a fanned-out step.
func (s *Session) instances(ctx context.Context, run string, step contract.StepState) (Detail, error) {
	d := Detail{Progress: protocol.Progress{Share: float64(step.Done) / float64(step.Of)}}
	lanes, err := s.lanes(ctx, run, step.ID, shownLanes)
	if err != nil {
		return d, err
	}
	for _, l := range lanes {
		for _, at := range l.Steps {
			d.Held = d.Held || at.Status == spec.StatusHold
			if len(d.Instances) == shownInstances {
				continue
			}
			one := InstanceDetail{StepState: at, Detail: Detail{Progress: protocol.Progress{Share: -1}}}
			if at.Status == spec.StatusRunning {
				if detail, err := s.detail(ctx, l.id, at); err == nil { // else it has only just begun, or ended
					one.Detail = detail
				}
			}
			d.Instances = append(d.Instances, one)
		}
	}
	return d, nil
}

// detail asks a step, or an instance of one, that workflow does.
func (s *Session) detail(ctx context.Context, workflow string, step contract.StepState) (Detail, error) {
	d := Detail{Progress: protocol.Progress{Share: -1}}
	switch {
	case step.Child == "":
		pending, err := s.pending(ctx, workflow)
		for _, a := range pending {
			if a.GetActivityId() == contract.ActivityID(step.ID, step.Attempt) && hasDetails(a) {
				return d, s.details(a, &d.Progress)
			}
		}
		return d, err
	case contract.IsTrainWorkflow(step.Child):
		d.Train = &contract.TrainState{}
		if err := s.query(ctx, step.Child, d.Train); err != nil {
			return d, err
		}
		pending, err := s.pending(ctx, step.Child)
		if err == nil {
			d.Text = s.tried(pending)
			d.TrainNodes, err = s.trainNodes(pending)
		}
		return d, err
	case step.Kind == spec.KindRollout:
		var state contract.RolloutState
		err := s.query(ctx, step.Child, &state)
		if state.Run != "" && contract.RunWorkflowID(state.Run) != workflow { // a target has one rollout at a time
			if state.Decision == "" { // else it has ended, and the step's own is about to begin
				d.Text = "waits for the rollout of " + state.Run
			}
			return d, err
		}
		d.Rollout = &state
		if err != nil || state.Phase == "" {
			return d, err
		}
		pending, err := s.pending(ctx, step.Child)
		state.Look = cmp.Or(s.looked(pending).Look, state.Look)
		return d, err
	case step.Kind == spec.KindPipeline:
		d.Child = &contract.RunState{}
		err := s.query(ctx, step.Child, d.Child)
		d.Held = slices.ContainsFunc(d.Child.Steps, func(s contract.StepState) bool { return s.Status == spec.StatusHold })
		return d, err
	}
	return d, nil
}

// pending are the activities of a workflow that have not ended.
func (s *Session) pending(ctx context.Context, workflow string) ([]*workflowpb.PendingActivityInfo, error) {
	ctx, cancel := context.WithTimeout(ctx, queryTimeout)
	defer cancel()
	desc, err := s.Client.DescribeWorkflowExecution(ctx, workflow, "")
	if err != nil {
		return nil, fmt.Errorf("describe %s: %w", workflow, err)
	}
	return desc.GetPendingActivities(), nil
}

func hasDetails(a *workflowpb.PendingActivityInfo) bool {
	return len(a.GetHeartbeatDetails().GetPayloads()) > 0
}

// details reads the newest details of an activity's heartbeats, of which there are some.
func (s *Session) details(a *workflowpb.PendingActivityInfo, out any) error {
	return s.Codec.DataConverter().FromPayloads(&commonpb.Payloads{Payloads: a.GetHeartbeatDetails().GetPayloads()[:1]}, out)
}

// tried says which attempt of an activity is made or waits, and why the one before failed, or what a node waits for before its ranks run, or
// that nodes are released, and why that is tried again; else it is empty.
func (s *Session) tried(pending []*workflowpb.PendingActivityInfo) string {
	for _, a := range pending {
		name, said := a.GetActivityType().GetName(), protocol.Progress{}
		if (name == contract.ReleaseActivity || name == protocol.PrepareActivity) && hasDetails(a) && s.details(a, &said) == nil && said.Text != "" {
			return said.Text
		}
		if failure := a.GetLastFailure(); failure != nil {
			why := fault.Message(s.Codec.FailureConverter().FailureToError(failure))
			return fmt.Sprintf("attempt %d after: %s", a.GetAttempt(), why)
		}
	}
	return ""
}

// TrainProgress is what the nodes of a training said last.
func (s *Session) TrainProgress(ctx context.Context, workflow string) ([]protocol.TrainProgress, error) {
	pending, err := s.pending(ctx, workflow)
	if err != nil {
		return nil, err
	}
	return s.trainNodes(pending)
}

func (s *Session) trainNodes(pending []*workflowpb.PendingActivityInfo) (all []protocol.TrainProgress, err error) {
	for _, a := range pending {
		if !isRanks(a) || !hasDetails(a) {
			continue
		}
		var p protocol.TrainProgress
		if err := s.details(a, &p); err != nil {
			return nil, err
		}
		all = append(all, p)
	}
	return all, nil
}

// isRanks reports whether an activity is the ranks of a node, which may have been attached to.
func isRanks(a *workflowpb.PendingActivityInfo) bool {
	name := a.GetActivityType().GetName()
	return name == protocol.RunRanksActivity || name == protocol.AttachActivity
}

// Wait returns how a run ended, when it has. What counts is the run's record, which does not depend on Temporal's retention; one that the
// workflow could not close is closed here. A server that does not answer is asked again until ctx ends.
func (s *Session) Wait(ctx context.Context, run string) (record.RunOutput, error) {
	waited := s.awaitEnd(ctx, contract.RunWorkflowID(run))
	if !over(waited) {
		return record.RunOutput{}, fmt.Errorf("wait for run %s: %w", run, cmp.Or(ctx.Err(), waited))
	}
	rec, err := record.LoadRun(ctx, activities.Patient(s.Store), run)
	if err != nil {
		return record.RunOutput{}, errors.Join(err, waited)
	}
	if rec.Status == spec.StatusRunning { // the workflow was terminated, failed before it could close its record, or was lost
		end := record.RunOutput{Status: spec.StatusFailed, Error: fault.Message(waited), ErrorType: fault.TypeOf(waited)}
		if connect.IsNotFound(waited) {
			end = lostEnd(unknownRun)
		}
		return end, s.closeRecord(ctx, run, end)
	}
	return record.RunOutput{Status: rec.Status, Error: rec.Error, ErrorType: rec.ErrorType}, nil
}

// awaitPause is the pause before a server that did not answer is asked again. Before that, the client has tried for a minute.
const awaitPause = time.Second

// awaitEnd waits for a workflow to end, and returns how it did, or why there is no telling.
func (s *Session) awaitEnd(ctx context.Context, workflow string) error {
	for {
		err := s.Client.GetWorkflow(ctx, workflow, "").Get(ctx, nil)
		if over(err) || !connect.IsAway(err) {
			return err
		}
		select {
		case <-time.After(awaitPause):
		case <-ctx.Done():
			return err
		}
	}
}

// over reports whether err, of waiting for a workflow, says that the workflow has ended or is forgotten, and not that there is no
// telling.
func over(err error) bool {
	return err == nil || errors.As(err, new(*temporal.WorkflowExecutionError)) || connect.IsNotFound(err)
}

// Cancel asks a run to end; one that was asked before, to stop what on_failure or finally steps of it or its children still do, too. One
// that has ended already, even so long ago that Temporal has forgotten it, is no error; one that only another server can cancel is
// ErrElsewhere.
func (s *Session) Cancel(ctx context.Context, run string) error {
	id := contract.RunWorkflowID(run)
	now, err := s.Client.DescribeWorkflowExecution(ctx, id, "")
	switch {
	case err != nil:
	case now.GetWorkflowExtendedInfo().GetCancelRequested(): // Temporal would not tell the workflow again
		err = s.cancelFurther(ctx, run)
	default:
		err = s.Client.CancelWorkflow(ctx, id, "")
	}
	if connect.IsNotFound(err) {
		if _, err := s.dead(ctx, run); errors.Is(err, ErrElsewhere) {
			return fault.New(fault.Invalid, fmt.Sprintf(
				`run %[1]s was started with another state folder, or on another cluster, and may still be running there
help: cancel it there; if that no longer exists, `+"`sluice cancel %[1]s --lost`"+` closes its record`, run), err)
		}
		return nil
	}
	if err != nil {
		return fmt.Errorf("cancel run %s: %w", run, err)
	}
	return nil
}

// cancelFurther stops what comes after the main steps of a run, and of those of its children that are done with theirs. The run is told
// first: that works also while the store is away, which knows its children.
func (s *Session) cancelFurther(ctx context.Context, run string) error {
	tell := func(run string) error {
		return s.Client.SignalWorkflow(ctx, contract.RunWorkflowID(run), "", contract.CancelSignal, nil)
	}
	if err := tell(run); err != nil {
		return err
	}
	open, err := s.openRecords(ctx, run)
	if err != nil {
		return fmt.Errorf("find its child runs: %w", err)
	}
	for _, record := range open {
		if record.Run == run {
			continue
		}
		if err := tell(record.Run); err != nil && !connect.IsNotFound(err) { // one that has ended meanwhile
			return err
		}
	}
	return nil
}
