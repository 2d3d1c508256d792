package control

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"

	"github.com/sluiceml/sluice/activities/contract"
	"github.com/sluiceml/sluice/connect"
	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/fault"
	"github.com/sluiceml/sluice/store"
	"github.com/sluiceml/sluice/store/record"
)

// unknownRun is why a run is lost whose workflow Temporal does not have.
const unknownRun = "Temporal has no workflow of this run: its database was lost or replaced"

// ErrElsewhere says that a run which Temporal does not have here was begun with another state folder, or on another cluster, whose
// records are in the same store: it may well go on there.
var ErrElsewhere = errors.New("the run was started elsewhere")

// CloseLost closes the record of a run that can never do so itself: its workflow was terminated, or Temporal does not have it. It does
// nothing for a run that goes on, for one that has ended in order meanwhile, and for one of which only another server can tell. It reports
// whether it has closed the record.
func (s *Session) CloseLost(ctx context.Context, run string) (bool, error) {
	why, err := s.dead(ctx, run)
	switch {
	case errors.Is(err, ErrElsewhere), errors.Is(err, store.ErrNotFound): // it failed before it had a record
		return false, nil
	case err != nil, why == "":
		return false, err
	}
	return true, s.closeRecord(ctx, run, lostEnd(why))
}

// CloseAllLost is CloseLost for each run whose record is open.
func (s *Session) CloseAllLost(ctx context.Context) error {
	all, err := record.Runs(ctx, s.Store)
	errs := []error{err}
	for _, rec := range all {
		if rec.Status == spec.StatusRunning && rec.Home != "" { // without, it may be another server's
			_, err := s.CloseLost(ctx, rec.Run)
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// lostEnd is how a run ended that could not say so itself.
func lostEnd(why string) record.RunOutput {
	return record.RunOutput{Status: spec.StatusFailed, Error: why, ErrorType: fault.Infrastructure}
}

// dead says why a run whose record is open can never end; it is empty for one that goes on, or has ended in order.
func (s *Session) dead(ctx context.Context, run string) (why string, err error) {
	desc, err := s.Client.DescribeWorkflowExecution(ctx, contract.RunWorkflowID(run), "")
	unknown := connect.IsNotFound(err)
	switch status := desc.GetWorkflowExecutionInfo().GetStatus(); {
	case unknown:
		why = unknownRun
	case err != nil:
		return "", fmt.Errorf("ask for run %s: %w", run, err)
	case connect.IsRunning(status), status == enums.WORKFLOW_EXECUTION_STATUS_CONTINUED_AS_NEW:
		return "", nil
	default:
		why = "its workflow has ended without closing the run's record: " + strings.ToLower(status.String())
	}
	var rec record.RunRecord
	if err := s.Store.GetJSON(ctx, record.RunKey(run), &rec); err != nil || rec.Status != spec.StatusRunning {
		return "", err
	}
	if unknown && rec.Home != "" && rec.Home != s.Home() {
		return why, ErrElsewhere
	}
	return why, nil
}

// closeRecord writes down the end of a run whose workflow cannot do so any more, and that of its child runs, unless those go on.
func (s *Session) closeRecord(ctx context.Context, run string, end record.RunOutput) error {
	open, err := s.openRecords(ctx, run)
	if err != nil {
		return err
	}
	for _, rec := range open {
		if rec.Run != run {
			why, err := s.dead(ctx, rec.Run)
			if err != nil && !errors.Is(err, ErrElsewhere) {
				return err
			}
			if why == "" {
				continue
			}
		}
		rec.Status, rec.Error, rec.ErrorType, rec.EndedAt = end.Status, end.Error, end.ErrorType, time.Now().UTC()
		if err := s.closeSteps(ctx, rec); err != nil {
			return err
		}
		if err := s.Store.PutJSON(ctx, record.RunKey(rec.Run), rec, store.WriteOptions{}); err != nil {
			return fmt.Errorf("close the record of run %s: %w", rec.Run, err)
		}
		if err := s.notifyLost(ctx, rec); err != nil {
			s.Log.Error("notifications are not sent", "run", rec.Run, "error", err)
		}
	}
	return nil
}

// closeSteps writes down the end of the steps that a run was about when it was ended, where its workflow can still be asked, and of those that
// it did not come to.
func (s *Session) closeSteps(ctx context.Context, rec record.RunRecord) error {
	var state contract.RunState
	if err := s.query(ctx, contract.RunWorkflowID(rec.Run), &state); err != nil {
		return nil //nolint:nilerr // Temporal has lost it, or there is no worker
	}
	for _, step := range state.Steps {
		end := record.StepRecord{Step: step.ID, Kind: step.Kind, Status: spec.StatusFailed, Error: rec.Error, ErrorType: rec.ErrorType}
		switch step.Status {
		case spec.StatusRunning, spec.StatusHold:
			end.StartedAt, end.EndedAt = step.StartedAt, rec.EndedAt
		case spec.StatusPending:
			end.Status = spec.StatusUpstream
		default:
			continue // it has a record; one that was not written yet is lost
		}
		err := s.Store.PutJSON(ctx, record.StepKey(rec.Run, step.ID), end, store.WriteOptions{IfAbsent: true})
		if err != nil && !errors.Is(err, store.ErrExists) {
			return fmt.Errorf("close the record of step %s of run %s: %w", step.ID, rec.Run, err)
		}
	}
	return nil
}

// notifyLost tells those who want to hear of failures that a run has failed which could not tell them itself: once, whoever closes its record.
func (s *Session) notifyLost(ctx context.Context, rec record.RunRecord) error {
	if rec.Submission == "" { // of which nothing more is known
		return nil
	}
	_, err := s.Client.ExecuteWorkflow(ctx, client.StartWorkflowOptions{
		ID: contract.LostNotifyWorkflowID(rec.Run), TaskQueue: contract.TaskQueue, WorkflowExecutionTimeout: contract.NotifyLimit,
		WorkflowIDReusePolicy: enums.WORKFLOW_ID_REUSE_POLICY_REJECT_DUPLICATE,
		TypedSearchAttributes: temporal.NewSearchAttributes(temporal.NewSearchAttributeKeyKeyword(contract.SearchPipeline).ValueSet(rec.Pipeline)),
	}, contract.NotifyWorkflow, contract.NotifyInput{
		Run: rec.Run, Pipeline: rec.Pipeline, Submission: rec.Submission, Event: spec.EventFail, Text: rec.Error, At: rec.EndedAt,
	})
	if errors.As(err, new(*serviceerror.WorkflowExecutionAlreadyStarted)) {
		return nil
	}
	return err
}

// openRecords are those of a run and of its child runs, as far as they have not ended.
func (s *Session) openRecords(ctx context.Context, run string) ([]record.RunRecord, error) {
	all, err := store.RecordsIn[record.RunRecord](ctx, s.Store, store.RunsPrefix+run, func(key string) bool {
		id, is := record.RunOf(key)
		return is && (id == run || strings.HasPrefix(id, run+"."))
	})
	return slices.DeleteFunc(all, func(r record.RunRecord) bool { return r.Status != spec.StatusRunning }), err
}
