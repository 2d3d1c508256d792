package control

import (
	"context"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"

	"github.com/sluiceml/sluice/activities/contract"
	"github.com/sluiceml/sluice/connect"
	"github.com/sluiceml/sluice/store/record"
)

// server plays Temporal: it has the workflows that were started.
type server struct {
	client.Client
	open    map[string]bool
	started []string
}

func (s *server) ExecuteWorkflow(_ context.Context, options client.StartWorkflowOptions, _ any, _ ...any) (client.WorkflowRun, error) {
	s.started = append(s.started, options.ID)
	s.open[options.ID] = true
	return nil, nil
}

func (s *server) DescribeWorkflowExecution(_ context.Context, id, _ string) (*workflowservice.DescribeWorkflowExecutionResponse, error) {
	isOpen, known := s.open[id]
	if !known {
		return nil, serviceerror.NewNotFound("no workflow")
	}
	status := enums.WORKFLOW_EXECUTION_STATUS_COMPLETED
	if isOpen {
		status = enums.WORKFLOW_EXECUTION_STATUS_RUNNING
	}
	return &workflowservice.DescribeWorkflowExecutionResponse{WorkflowExecutionInfo: &workflow.WorkflowExecutionInfo{Status: status}}, nil
}

// TestOfSeveralOpenRunsTheRightOneIsResumed: the one that takes over the same, also where another was started after it.
func TestOfSeveralOpenRunsTheRightOneIsResumed(t *testing.T) {
	temporal := &server{open: map[string]bool{}}
	s := &Session{Connection: &connect.Connection{Client: temporal}, Store: newStore(t)}
	submit := func(again ...string) (string, bool) {
		t.Helper()
		in := contract.RunInput{Name: "p", Submission: "sha256:" + strings.Repeat("0", 64), Reuse: record.Reuse{Again: again}}
		run, resumed, err := s.open(t.Context(), in)
		if err != nil {
			t.Fatal(err)
		}
		return run.Run, resumed
	}
	plain, _ := submit()
	from, resumed := submit("mail")
	if resumed {
		t.Fatal("a run with --from resumed one without")
	}
	for want, again := range map[string][]string{plain: nil, from: {"mail"}} {
		if got, resumed := submit(again...); got != want || !resumed {
			t.Errorf("with %v to be done again run %s was found (resumed: %v), want %s", again, got, resumed, want)
		}
	}
	if diff := cmp.Diff([]string{contract.RunWorkflowID(plain), contract.RunWorkflowID(from)}, temporal.started); diff != "" {
		t.Errorf("started (-want +got):\n%s", diff)
	}
	temporal.open[contract.RunWorkflowID(plain)] = false
	if got, resumed := submit(); resumed || got == plain {
		t.Errorf("the run %s that has ended was resumed", got)
	}
}
