package workflows

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/workflow"

	"github.com/sluiceml/sluice/activities/contract"
	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/fault"
	"github.com/sluiceml/sluice/internal/testing/flowtest"
	"github.com/sluiceml/sluice/store/record"
	"github.com/sluiceml/sluice/workflows/durable"
)

// watched is what a watch did.
type watched struct {
	looks []time.Duration // since its beginning
	runs  []contract.RunInput
	notes []contract.WatchNote
	err   error
}

// sight is what a look finds.
type sight struct {
	look contract.Look
	err  error
	long bool // the history has become long meanwhile
}

// watch plays a watch that finds one thing after the other, and then that its trigger is gone.
func watch(t *testing.T, sights ...sight) watched {
	t.Helper()
	env := flowtest.New()
	var got watched
	env.RegisterWorkflowWithOptions(Watch, workflow.RegisterOptions{Name: contract.WatchWorkflow})
	env.RegisterWorkflowWithOptions(func(ctx workflow.Context, in contract.RunInput) (record.RunOutput, error) {
		if id := workflow.GetInfo(ctx).WorkflowExecution.ID; id != contract.RunWorkflowID(in.Run) {
			t.Errorf("run %s has the workflow ID %s", in.Run, id)
		}
		got.runs = append(got.runs, in)
		return record.RunOutput{}, workflow.Sleep(ctx, time.Hour) // the watch does not wait for it
	}, workflow.RegisterOptions{Name: contract.PipelineWorkflow})
	began := env.Now()
	env.RegisterActivityWithOptions(func(_ context.Context, in contract.WatchInput) (contract.Look, error) {
		if first := len(got.looks) == 0; in.Looked == first {
			t.Errorf("look %d says that it has looked: %v", len(got.looks)+1, in.Looked)
		}
		got.looks = append(got.looks, env.Now().Sub(began))
		if len(sights) == 0 {
			return contract.Look{Over: true}, nil
		}
		now := sights[0]
		sights = sights[1:]
		if now.long {
			env.SetCurrentHistoryLength(durable.LongHistory)
		}
		return now.look, now.err
	}, activity.RegisterOptions{Name: contract.TriggerLookActivity})
	env.RegisterActivityWithOptions(func(_ context.Context, note contract.WatchNote) error {
		got.notes = append(got.notes, note)
		return nil
	}, activity.RegisterOptions{Name: contract.TriggerNoteActivity})
	env.ExecuteWorkflow(contract.WatchWorkflow, input())
	if !env.IsWorkflowCompleted() {
		t.Fatal("the watch did not end")
	}
	got.err = env.GetWorkflowError()
	return got
}

func input() contract.WatchInput {
	return contract.WatchInput{Run: contract.RunInput{
		Name: "spam", Submission: "sha256:a", Trigger: spec.TriggerFacts{Name: "inbox", Kind: "data"},
	}, Spec: spec.Trigger{Data: &spec.DataTrigger{Every: spec.Duration(time.Minute)}}, Digest: "d"}
}

func TestWatch(t *testing.T) {
	due := contract.Look{
		Run: "spam-inbox-ab12", Trigger: spec.TriggerFacts{Name: "inbox", Kind: "data", Files: []string{"file:///in/a"}},
	}
	run := input().Run
	run.Run, run.Trigger = due.Run, due.Trigger
	note := contract.WatchNote{Pipeline: "spam", Trigger: "inbox", Run: due.Run}

	looks := func(t *testing.T, got watched, want ...time.Duration) {
		t.Helper()
		if diff := cmp.Diff(want, got.looks); diff != "" {
			t.Errorf("looks (-want +got):\n%s", diff)
		}
	}
	t.Run("nothing", func(t *testing.T) {
		seen := sight{look: contract.Look{Summary: "3 objects"}}
		got := watch(t, seen, seen)
		if got.err != nil || got.runs != nil || got.notes != nil {
			t.Errorf("%+v", got)
		}
		looks(t, got, 0, time.Minute, 2*time.Minute)
	})
	t.Run("due", func(t *testing.T) {
		got := watch(t, sight{}, sight{look: due})
		if diff := cmp.Diff([]contract.RunInput{run}, got.runs); diff != "" || got.err != nil {
			t.Errorf("%v, runs (-want +got):\n%s", got.err, diff)
		}
		if diff := cmp.Diff([]contract.WatchNote{note}, got.notes); diff != "" {
			t.Errorf("notes (-want +got):\n%s", diff)
		}
		looks(t, got, 0, time.Minute, 2*time.Minute)
	})
	t.Run("cannot look", func(t *testing.T) {
		got := watch(t, sight{err: fault.New(fault.Invalid, "no such folder", nil)}, sight{look: due})
		if got.err != nil || len(got.runs) != 1 {
			t.Errorf("%+v", got)
		}
		wrong := contract.WatchNote{Pipeline: "spam", Trigger: "inbox", Error: "no such folder"}
		if diff := cmp.Diff([]contract.WatchNote{wrong, note}, got.notes); diff != "" {
			t.Errorf("notes (-want +got):\n%s", diff)
		}
	})
	t.Run("long", func(t *testing.T) {
		got := watch(t, sight{}, sight{look: due, long: true}, sight{})
		var again *workflow.ContinueAsNewError
		if !errors.As(got.err, &again) {
			t.Fatalf("it ended with %v", got.err)
		}
		want := input()
		want.Looked = true
		if diff := cmp.Diff(want, nextInput[contract.WatchInput](t, again)); diff != "" {
			t.Errorf("the next (-want +got):\n%s", diff)
		}
		if len(got.runs) != 1 {
			t.Errorf("%d runs", len(got.runs))
		}
	})
}
