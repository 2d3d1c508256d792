package worker

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"

	"github.com/sluiceml/sluice/activities"
	"github.com/sluiceml/sluice/activities/contract"
	"github.com/sluiceml/sluice/dsl"
	"github.com/sluiceml/sluice/store"
)

// unknownRun is why a run is lost whose workflow Temporal does not have.
const unknownRun = "Temporal has no workflow of this run: its database was lost or replaced"

// Lost says why a run whose record is open can never end: its workflow was terminated, or Temporal does not have it. It is empty for
// a run that goes on, and for one that has ended in order meanwhile.
func (s *Session) Lost(ctx context.Context, run string) (string, error) {
	desc, err := s.Client.DescribeWorkflowExecution(ctx, contract.RunWorkflowID(run), "")
	var gone *serviceerror.NotFound
	why := unknownRun
	if !errors.As(err, &gone) {
		if err != nil {
			return "", fmt.Errorf("ask for run %s: %w", run, err)
		}
		status := desc.GetWorkflowExecutionInfo().GetStatus()
		if status == enums.WORKFLOW_EXECUTION_STATUS_RUNNING || status == enums.WORKFLOW_EXECUTION_STATUS_CONTINUED_AS_NEW {
			return "", nil
		}
		why = "its workflow has ended without closing the run's record: " + strings.ToLower(status.String())
	}
	var record contract.RunRecord
	if err := s.Store.GetJSON(ctx, activities.RunKey(run), &record); err != nil || record.Status != dsl.StatusRunning {
		return "", err
	}
	return why, nil
}

// closeRecord writes down the end of a run whose workflow cannot do so any more, and that of its child runs, unless those go on.
func (s *Session) closeRecord(ctx context.Context, run string, end contract.RunOutput) error {
	open, err := store.RecordsIn[contract.RunRecord](ctx, s.Store, "runs/"+run, func(key string) bool {
		id, is := strings.CutSuffix(strings.TrimPrefix(key, "runs/"), "/run.json")
		return is && (id == run || strings.HasPrefix(id, run+"."))
	})
	if err != nil {
		return err
	}
	for _, record := range open {
		if record.Status != dsl.StatusRunning {
			continue
		}
		if record.Run != run {
			why, err := s.Lost(ctx, record.Run)
			if err != nil {
				return err
			}
			if why == "" {
				continue
			}
		}
		record.Status, record.Error, record.ErrorType, record.EndedAt = end.Status, end.Error, end.ErrorType, time.Now().UTC()
		if err := s.Store.PutJSON(ctx, activities.RunKey(record.Run), record, store.WriteOptions{}); err != nil {
			return fmt.Errorf("close the record of run %s: %w", record.Run, err)
		}
	}
	return nil
}
