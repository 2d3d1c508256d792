package worker

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.temporal.io/api/workflowservice/v1"

	"github.com/sluiceml/sluice/activities/contract"
	"github.com/sluiceml/sluice/control"
	"github.com/sluiceml/sluice/internal/poll"
)

const (
	// lostEvery spaces looks at which runs were ended from outside, and lostTimeout bounds one. On a cluster each worker looks, and Temporal
	// answers some ten such questions a second for all of a namespace (frontend.namespaceRPS.visibility).
	lostEvery, lostEveryOnCluster, lostTimeout = 3 * time.Second, 15 * time.Second, time.Minute
	// listLag is how long a workflow that has ended may be missing in Temporal's lists.
	listLag = time.Minute
)

// closeLost closes, from now on until ctx ends, the records of runs that cannot do so themselves, since somebody has terminated their workflows or Temporal
// has lost them. What happened while nobody worked is seen first, by the records that are open; then one question at a time asks Temporal
// which runs have ended badly.
func (w *Worker) closeLost(ctx context.Context) {
	l := lostRuns{session: w.session, since: time.Now(), seen: map[string]bool{}}
	every := lostEvery
	if w.session.Holder == nil {
		every = lostEveryOnCluster
	}
	w.closing.Go(func() {
		for range poll.Every(ctx, every) {
			if err := l.look(ctx); err != nil && ctx.Err() == nil {
				w.session.Log.Warn("some records of runs that were ended from outside could not be closed", "error", err)
			}
		}
	})
}

// lostRuns are the runs that have ended badly.
type lostRuns struct {
	session *control.Session
	since   time.Time       // what ended before has been seen, but for what the lists lacked
	seen    map[string]bool // by execution, since then
	opened  bool            // the records that were open at the start have been seen
}

// look looks once.
func (l *lostRuns) look(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, lostTimeout)
	defer cancel()
	var errs []error
	if !l.opened {
		if err := l.session.CloseAllLost(ctx); err != nil {
			errs = append(errs, err) // that of one run must not keep the others below from being closed
		} else {
			l.opened = true
		}
	}
	now := time.Now()
	seen := map[string]bool{}
	query := &workflowservice.ListWorkflowExecutionsRequest{Query: fmt.Sprintf(
		"WorkflowType = '%s' AND ExecutionStatus IN ('Failed', 'Terminated', 'TimedOut') AND CloseTime >= '%s'",
		contract.PipelineWorkflow, l.since.Add(-listLag).UTC().Format(time.RFC3339Nano))}
	for {
		page, err := l.session.Client.ListWorkflow(ctx, query)
		if err != nil {
			return err
		}
		for _, each := range page.GetExecutions() {
			execution := each.GetExecution().GetRunId()
			if !l.seen[execution] {
				if _, err := l.session.CloseLost(ctx, contract.RunOf(each.GetExecution().GetWorkflowId())); err != nil {
					errs = append(errs, err)
					continue
				}
			}
			seen[execution] = true
		}
		if query.NextPageToken = page.GetNextPageToken(); len(query.NextPageToken) == 0 {
			break
		}
	}
	l.seen = seen
	if len(errs) == 0 {
		l.since = now
	}
	return errors.Join(errs...)
}
