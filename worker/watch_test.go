package worker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"

	"github.com/sluiceml/sluice/activities/contract"
	"github.com/sluiceml/sluice/connect"
	"github.com/sluiceml/sluice/control"
	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/fault"
)

// TestWatch follows a run from its start to its cancel.
func TestWatch(t *testing.T) {
	t.Parallel()
	s := session(t)
	run := submit(t, s, control.SubmitRequest{PipelineFile: project(t, sleeper, nil), Params: map[string]string{"who": "bear"}}).Run
	t.Cleanup(func() { end(t, s, run) })

	step, detail := awaitDetail(t, s, run, "nap", func(d control.Detail) bool { return d.Text == "bear sleeps" })
	if step.Kind != spec.KindRun || step.Attempt != 1 || step.Child != "" || step.StartedAt.IsZero() || detail.Share >= 0 {
		t.Errorf("the step is %+v, its share %v", step, detail.Share)
	}
	state, err := s.State(t.Context(), run)
	if err != nil {
		t.Fatal(err)
	}
	if state.Status != spec.StatusRunning || len(state.Steps) != 2 || state.Steps[1].Status != spec.StatusPending {
		t.Errorf("the run is %+v", state)
	}

	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if out, err := s.Wait(ctx, run); err == nil {
		t.Errorf("a run that goes on has ended as %+v", out)
	}

	if err := s.Cancel(t.Context(), run); err != nil {
		t.Fatal(err)
	}
	out, record := wait(t, s, run)
	if out.Status != spec.StatusCanceled || out.ErrorType != fault.Canceled {
		t.Errorf("the run ended as %+v", out)
	}
	if diff := cmp.Diff(map[string]spec.Status{"nap": spec.StatusCanceled, "after": spec.StatusCanceled}, statuses(record)); diff != "" {
		t.Errorf("steps (-want +got):\n%s", diff)
	}
	if err := s.Cancel(t.Context(), run); err != nil {
		t.Errorf("a cancel of a run that has ended: %v", err)
	}
}

// TestWaitForTerminated: a run that Temporal ended has no last word in its record.
func TestWaitForTerminated(t *testing.T) {
	s := session(t)
	run := submit(t, s, control.SubmitRequest{PipelineFile: project(t, sleeper, map[string]string{"terminated": ""})}).Run
	awaitDetail(t, s, run, "nap", func(control.Detail) bool { return true })
	if err := s.Client.TerminateWorkflow(t.Context(), contract.RunWorkflowID(run), "", "no patience"); err != nil {
		t.Fatal(err)
	}
	if out, _ := wait(t, s, run); out.Status != spec.StatusFailed || out.ErrorType != fault.Infrastructure || out.Error == "" {
		t.Errorf("the run ended as %+v", out)
	}
}

// TestWaitWithoutServer: that nobody answers any more says nothing of the run.
func TestWaitWithoutServer(t *testing.T) {
	s := session(t)
	run := submit(t, s, control.SubmitRequest{PipelineFile: project(t, sleeper, map[string]string{"deserted": ""})}).Run
	t.Cleanup(func() { end(t, s, run) })
	awaitDetail(t, s, run, "nap", func(control.Detail) bool { return true })
	deserted, err := control.Open(t.Context(), control.Options{StateDir: s.Dir, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	deserted.Client.Close()
	if out, err := deserted.Wait(t.Context(), run); err == nil {
		t.Errorf("the run has ended as %+v", out)
	}
	if err := deserted.Close(); err != nil {
		t.Error(err)
	}
}

// TestWaitAsksAgain: a server that does not answer now says nothing of the run; one that refuses does.
func TestWaitAsksAgain(t *testing.T) {
	t.Parallel()
	refused := serviceerror.NewPermissionDenied("not you", "")
	for _, silent := range []error{
		serviceerror.NewUnavailable("connection refused"),
		serviceerror.NewDeadlineExceeded("context deadline exceeded while waiting for connections to become ready"),
		serviceerror.NewResourceExhausted(enums.RESOURCE_EXHAUSTED_CAUSE_SYSTEM_OVERLOADED, "busy"),
		context.DeadlineExceeded,
	} {
		t.Run(silent.Error(), func(t *testing.T) {
			t.Parallel()
			server := &answers{errs: []error{silent, fmt.Errorf("get history: %w", silent), refused}}
			s := &control.Session{Connection: &connect.Connection{Client: server}}
			if _, err := s.Wait(t.Context(), "r1"); !errors.Is(err, refused) || len(server.errs) > 0 {
				t.Errorf("waiting ended with %v, %d answers before it was refused", err, len(server.errs))
			}
			ctx, cancel := context.WithCancel(t.Context())
			server = &answers{errs: slices.Repeat([]error{silent}, 100), asked: cancel}
			s = &control.Session{Connection: &connect.Connection{Client: server}}
			if _, err := s.Wait(ctx, "r1"); !errors.Is(err, context.Canceled) {
				t.Errorf("waiting that nobody wants any more ended with %v", err)
			}
		})
	}
}

// answers is a server that answers those who wait for workflows, one after the other, with errors.
type answers struct {
	client.Client
	client.WorkflowRun

	errs  []error
	asked func()
}

func (a *answers) GetWorkflow(context.Context, string, string) client.WorkflowRun { return a }

func (a *answers) Get(context.Context, any) error {
	if a.asked != nil {
		a.asked()
	}
	err := a.errs[0]
	a.errs = a.errs[1:]
	return err
}

// TestWatchNothing: of a run that is not there, everything says so.
func TestWatchNothing(t *testing.T) {
	s := session(t)
	if _, err := s.State(t.Context(), "no-such-run"); err == nil {
		t.Error("it has a state")
	}
	if _, err := s.Detail(t.Context(), "no-such-run", contract.StepState{ID: "nap", Attempt: 1}); err == nil {
		t.Error("it has a detail")
	}
	if _, err := s.Wait(t.Context(), "no-such-run"); err == nil {
		t.Error("it has ended")
	}
	if err := s.Cancel(t.Context(), "no-such-run"); err != nil {
		t.Errorf("cancel: %v", err)
	}
}
