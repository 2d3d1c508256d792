package workflows

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/log"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/workflow"

	"github.com/sluiceml/sluice/activities/contract"
	"github.com/sluiceml/sluice/dsl"
)

// watched is what a look did.
type watched struct {
	runs  []contract.RunInput
	notes []contract.WatchNote
	err   error
}

// watch makes a look that finds what it is told.
func watch(t *testing.T, look contract.Look, lookErr error) watched {
	t.Helper()
	var suite testsuite.WorkflowTestSuite
	suite.SetLogger(log.NewStructuredLogger(slog.New(slog.DiscardHandler)))
	env := suite.NewTestWorkflowEnvironment()
	env.SetTestTimeout(20 * time.Second)
	var got watched
	env.RegisterWorkflowWithOptions(Watch, workflow.RegisterOptions{Name: contract.WatchWorkflow})
	env.RegisterWorkflowWithOptions(func(ctx workflow.Context, in contract.RunInput) (contract.RunOutput, error) {
		if id := workflow.GetInfo(ctx).WorkflowExecution.ID; id != contract.RunWorkflowID(in.Run) {
			t.Errorf("run %s has the workflow ID %s", in.Run, id)
		}
		got.runs = append(got.runs, in)
		return contract.RunOutput{}, workflow.Sleep(ctx, time.Hour) // the look does not wait for it
	}, workflow.RegisterOptions{Name: contract.PipelineWorkflow})
	env.RegisterActivityWithOptions(func(context.Context, contract.WatchInput) (contract.Look, error) {
		return look, lookErr
	}, activity.RegisterOptions{Name: contract.TriggerLookActivity})
	env.RegisterActivityWithOptions(func(_ context.Context, note contract.WatchNote) error {
		got.notes = append(got.notes, note)
		return nil
	}, activity.RegisterOptions{Name: contract.TriggerNoteActivity})
	env.ExecuteWorkflow(contract.WatchWorkflow, input())
	if !env.IsWorkflowCompleted() {
		t.Fatal("the look did not end")
	}
	got.err = env.GetWorkflowError()
	return got
}

func input() contract.WatchInput {
	return contract.WatchInput{Run: contract.RunInput{
		Name: "spam", Submission: "sha256:a", Trigger: dsl.TriggerFacts{Name: "inbox", Kind: "data"},
	}}
}

func TestWatch(t *testing.T) {
	due := contract.Look{
		Run: "spam-inbox-ab12", Trigger: dsl.TriggerFacts{Name: "inbox", Kind: "data", Files: []string{"file:///in/a"}},
	}
	run := input().Run
	run.Run, run.Trigger = due.Run, due.Trigger
	note := contract.WatchNote{Pipeline: "spam", Trigger: "inbox", Run: due.Run}

	t.Run("nothing", func(t *testing.T) {
		got := watch(t, contract.Look{Summary: "3 objects"}, nil)
		if got.err != nil || got.runs != nil || got.notes != nil {
			t.Errorf("%+v", got)
		}
	})
	t.Run("due", func(t *testing.T) {
		got := watch(t, due, nil)
		if diff := cmp.Diff([]contract.RunInput{run}, got.runs); diff != "" || got.err != nil {
			t.Errorf("%v, runs (-want +got):\n%s", got.err, diff)
		}
		if diff := cmp.Diff([]contract.WatchNote{note}, got.notes); diff != "" {
			t.Errorf("notes (-want +got):\n%s", diff)
		}
	})
	t.Run("cannot look", func(t *testing.T) {
		got := watch(t, due, contract.Error(contract.ErrInvalid, "no such folder", nil))
		if contract.ErrorType(got.err) != contract.ErrInvalid || got.runs != nil || got.notes != nil {
			t.Errorf("%+v", got)
		}
	})
}
