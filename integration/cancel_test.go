package integration

import (
	"context"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/client"

	"github.com/sluiceml/sluice/activities/contract"
	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/fault"
	"github.com/sluiceml/sluice/internal/testing/historytest"
	"github.com/sluiceml/sluice/internal/testing/noop"
	"github.com/sluiceml/sluice/store/record"
)

// canceled is a pipeline whose parts are canceled each by itself.
const canceled = `sluice: pipeline/v1
name: canceled
params: {ask: {type: bool}}
steps:
  ask:
    when: params.ask
    approval: {message: "go on?"}
  first:
    when: "!params.ask"
    run: {command: [noop]}
  next: {needs: [ask], run: {command: [noop]}}
on_failure:
  page: {run: {command: [noop]}}
finally:
  tidy: {run: {command: [noop]}}
  sweep: {needs: [tidy], run: {command: [noop]}}
`

// pause is a step that goes on when somebody lets it, or when it is canceled.
type pause struct{ began, goOn chan struct{} }

func newPause() pause { return pause{make(chan struct{}), make(chan struct{})} }

func (p pause) step(ctx context.Context) error {
	close(p.began)
	select {
	case <-p.goOn:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// TestCancels: what is canceled by itself is no success, a cancel that comes after the main steps does not change how they ended, and a
// further one stops what is still done. It records what workflows/ replays.
func TestCancels(t *testing.T) {
	const succeeded, failed, skipped, upstream, stopped = spec.StatusSucceeded, spec.StatusFailed, spec.StatusSkipped, spec.StatusUpstream, spec.StatusCanceled
	type ends = map[string]spec.Status
	pauses := map[string]pause{"late/page": newPause(), "cut/tidy": newPause()}
	e := newEngine(t, func(ctx context.Context, in record.StepInput) (record.StepOutput, error) {
		if p, yes := pauses[in.Run+"/"+in.Step]; yes {
			return record.StepOutput{}, p.step(ctx)
		}
		if in.Run == "late" && in.Step == "first" {
			return record.StepOutput{}, fault.New(fault.User, "exit code 1", nil)
		}
		return noop.Nothing(ctx, in)
	})
	for _, tt := range []struct {
		name, ask string
		cancel    func(client.WorkflowRun) error
		want      ends
		run       spec.Status
	}{
		{
			"own", "true", func(client.WorkflowRun) error {
				id := contract.ApprovalWorkflowID("own", "ask")
				(&site{t: t}).await("the question", func() bool {
					_, err := e.client.QueryWorkflow(t.Context(), id, "", contract.StateQuery)
					return err == nil
				})
				return e.client.CancelWorkflow(t.Context(), id, "")
			},
			ends{"ask": failed, "first": skipped, "next": upstream, "page": succeeded, "tidy": succeeded, "sweep": succeeded},
			failed,
		},
		{
			"late", "false", func(run client.WorkflowRun) error {
				<-pauses["late/page"].began
				defer close(pauses["late/page"].goOn)
				return e.client.CancelWorkflow(t.Context(), run.GetID(), "")
			},
			ends{"ask": skipped, "first": failed, "next": skipped, "page": succeeded, "tidy": succeeded, "sweep": succeeded},
			failed,
		},
		{
			"cut", "false", func(run client.WorkflowRun) error {
				<-pauses["cut/tidy"].began
				if err := e.client.CancelWorkflow(t.Context(), run.GetID(), ""); err != nil {
					return err
				}
				return e.client.SignalWorkflow(t.Context(), run.GetID(), "", contract.CancelSignal, nil)
			},
			ends{"ask": skipped, "first": succeeded, "next": skipped, "page": skipped, "tidy": stopped, "sweep": stopped},
			stopped,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			in := e.submit(strings.Replace(canceled, "{type: bool}", "{type: bool, default: "+tt.ask+"}", 1))
			run := e.start(tt.name, in)
			if err := tt.cancel(run); err != nil {
				t.Fatal(err)
			}
			_ = run.Get(t.Context(), nil) // its record says it better
			historytest.Record(t, e.client, run.GetID(), "pipeline-canceled-"+tt.name)
			record, err := record.LoadRun(t.Context(), e.store, tt.name)
			if err != nil {
				t.Fatal(err)
			}
			got := ends{}
			for _, s := range record.Steps {
				got[s.Step] = s.Status
			}
			if diff := cmp.Diff(tt.want, got); diff != "" || record.Status != tt.run {
				t.Errorf("the run ended as %s, want %s; steps (-want +got):\n%s", record.Status, tt.run, diff)
			}
		})
	}
}

// TestLostLane: when a lane is terminated, all of its instances count as failed, whatever became of them.
func TestLostLane(t *testing.T) {
	all := newPause()
	var once sync.Once
	e := newEngine(t, func(ctx context.Context, in record.StepInput) (record.StepOutput, error) {
		once.Do(func() { close(all.began) })
		<-all.goOn
		return noop.Nothing(ctx, in)
	})
	run := e.start("lost", e.submit(`sluice: pipeline/v1
name: lost
steps:
  wide:
    foreach: lists.range(200)
    max_parallel: 128
    require: 90%
    run: {command: [noop]}
`))
	<-all.began
	lane := contract.LaneWorkflowID("lost", "wide", 0)
	(&site{t: t}).await("the lane", func() bool {
		_, err := e.client.QueryWorkflow(t.Context(), lane, "", contract.StateQuery)
		return err == nil
	})
	if err := e.client.TerminateWorkflow(t.Context(), lane, "", "a test"); err != nil {
		t.Fatal(err)
	}
	(&site{t: t}).await("the run to hear of it", func() bool {
		for events := e.client.GetWorkflowHistory(t.Context(), run.GetID(), "", false, enums.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT); events.HasNext(); {
			event, err := events.Next()
			if err != nil {
				t.Fatal(err)
			}
			if event.GetEventType() == enums.EVENT_TYPE_CHILD_WORKFLOW_EXECUTION_TERMINATED {
				return true
			}
		}
		return false
	})
	close(all.goOn)
	_ = run.Get(t.Context(), nil) // its record says it better
	historytest.Record(t, e.client, run.GetID(), "pipeline-lost-lane")
	record, err := record.LoadRun(t.Context(), e.store, "lost")
	if err != nil {
		t.Fatal(err)
	}
	if s := record.Steps[0]; s.Status != spec.StatusFailed || !strings.HasPrefix(s.Error, "100 of 200 failed") {
		t.Errorf("the step ended as %s: %s", s.Status, s.Error)
	}
}
