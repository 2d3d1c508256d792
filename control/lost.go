package control

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"go.temporal.io/api/enums/v1"

	"github.com/sluiceml/sluice/activities/contract"
	"github.com/sluiceml/sluice/connect"
	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/store"
	"github.com/sluiceml/sluice/store/record"
)

// unknownRun is why a run is lost whose workflow Temporal does not have.
const unknownRun = "Temporal has no workflow of this run: its database was lost or replaced"

// ErrElsewhere says that a run which Temporal does not have here was begun with another state folder, or on another cluster, whose
// records are in the same store: it may well go on there.
var ErrElsewhere = errors.New("the run was begun elsewhere")

// Lost says why a run whose record is open can never end: its workflow was terminated, or Temporal does not have it. It is empty for
// a run that goes on, for one that has ended in order meanwhile, and for one of which only another server can tell (ErrElsewhere).
func (s *Session) Lost(ctx context.Context, run string) (string, error) {
	why, err := s.dead(ctx, run)
	if errors.Is(err, ErrElsewhere) {
		return "", nil
	}
	return why, err
}

// dead is Lost, but for ErrElsewhere.
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
		if err := s.Store.PutJSON(ctx, record.RunKey(rec.Run), rec, store.WriteOptions{}); err != nil {
			return fmt.Errorf("close the record of run %s: %w", rec.Run, err)
		}
	}
	return nil
}

// openRecords are those of a run and of its child runs, as far as they have not ended.
func (s *Session) openRecords(ctx context.Context, run string) ([]record.RunRecord, error) {
	all, err := store.RecordsIn[record.RunRecord](ctx, s.Store, store.RunsPrefix+run, func(key string) bool {
		id, is := record.RunOf(key)
		return is && (id == run || strings.HasPrefix(id, run+"."))
	})
	return slices.DeleteFunc(all, func(r record.RunRecord) bool { return r.Status != spec.StatusRunning }), err
}
