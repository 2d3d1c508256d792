package agent

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"

	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/fault"
	"github.com/sluiceml/sluice/training/checkpoint"
	"github.com/sluiceml/sluice/training/protocol"
)

// describer is a Temporal that says whether the workflow is open.
type describer struct {
	client.Client
	status enums.WorkflowExecutionStatus
	err    error
	asked  chan struct{}
}

func (d *describer) DescribeWorkflowExecution(context.Context, string, string) (*workflowservice.DescribeWorkflowExecutionResponse, error) {
	select {
	case d.asked <- struct{}{}:
	default:
	}
	return &workflowservice.DescribeWorkflowExecutionResponse{WorkflowExecutionInfo: &workflowpb.WorkflowExecutionInfo{Status: d.status}}, d.err
}

// giveUp starts ranks and gives the activity that waits for them up, as Temporal does when it has not heard of it.
func giveUp(t *testing.T, d *describer) (gang, <-chan error) {
	t.Helper()
	g := startGang(t, 1, spec.Train{}, `trap 'exit 143' TERM; touch "$SLUICE_OUTPUT_DIR/up"; until [ -e "$SLUICE_OUTPUT_DIR/end" ]; do sleep 0.02; done; exit 7`)
	g.await(t, 0, "../up")
	n := g.nodes[0]
	d.asked = make(chan struct{}, 1)
	n.client, n.orphanEvery = d, 10*time.Millisecond
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(serviceerror.NewNotFound("the activity has timed out"))
	left := make(chan error, 1)
	go func() {
		_, err := n.await(ctx, g.ranks[0])
		left <- err
	}()
	return g, left
}

func within[T any](t *testing.T, what string, c <-chan T) (got T) {
	t.Helper()
	select {
	case got = <-c:
	case <-time.After(time.Minute):
		t.Fatalf("%s does not come", what)
	}
	return got
}

var ofFirst = protocol.RunRanksInput{Protocol: protocol.AgentProtocol, Generation: 1}

// Ranks that Temporal has given up go on while their workflow is open, or cannot be asked for, until Attach takes them over.
func TestRanksOutliveTemporal(t *testing.T) {
	for name, d := range map[string]*describer{
		"the workflow is open":     {status: enums.WORKFLOW_EXECUTION_STATUS_RUNNING},
		"Temporal does not answer": {err: serviceerror.NewUnavailable("no connection")},
		"Temporal does not say":    {err: serviceerror.NewPermissionDenied("not for agents", "")},
	} {
		t.Run(name, func(t *testing.T) {
			g, left := giveUp(t, d)
			for range 3 {
				within(t, "a look at the workflow", d.asked)
			}
			attached := make(chan protocol.RanksEnded, 1)
			go func() {
				ended, err := g.nodes[0].Attach(context.Background(), ofFirst)
				if err != nil {
					t.Error(err)
				}
				attached <- ended
			}()
			if err := within(t, "the end of the old activity", left); !errors.Is(err, errGivenUp) {
				t.Errorf("the old activity ends with %v", err)
			}
			if err := g.nodes[0].Stop(t.Context(), protocol.StopInput{Generation: 1, Grace: time.Minute}); err != nil {
				t.Fatal(err)
			}
			if ended := within(t, "the end of the ranks", attached); ended.Code != exitStopped || !ended.Stopped {
				t.Errorf("ended %+v, want to hear of the stop", ended)
			}
		})
	}
}

// How ranks ended while Temporal was away is kept for Attach.
func TestAnEndMeanwhileIsKept(t *testing.T) {
	g, left := giveUp(t, &describer{status: enums.WORKFLOW_EXECUTION_STATUS_RUNNING})
	if err := os.WriteFile(filepath.Join(g.ranks[0].p.folder.Output, "end"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	within(t, "the end of the old activity", left)
	if ended, err := g.nodes[0].Attach(t.Context(), ofFirst); err != nil || ended.Code != 7 || ended.Stopped {
		t.Errorf("ended %+v, %v, want exit code 7", ended, err)
	}
}

// Ranks that nobody can want any more are stopped, and Attach hears that they are gone.
func TestUnwantedRanksEnd(t *testing.T) {
	running := enums.WORKFLOW_EXECUTION_STATUS_RUNNING
	for name, tt := range map[string]struct {
		temporal describer
		seal     bool
	}{
		"a later generation is sealed":         {describer{status: running}, true},
		"sealed, and Temporal does not answer": {describer{err: serviceerror.NewUnavailable("no connection")}, true},
		"the workflow was terminated":          {describer{status: enums.WORKFLOW_EXECUTION_STATUS_TERMINATED}, false},
		"Temporal has lost its database":       {describer{err: serviceerror.NewNotFound("no such workflow")}, false},
	} {
		t.Run(name, func(t *testing.T) {
			g, left := giveUp(t, &tt.temporal)
			if tt.seal {
				k := g.ranks[0].key
				for k.Generation = 1; k.Generation <= 2; k.Generation++ {
					if _, err := checkpoint.MakeSeal(t.Context(), g.nodes[0].store, k, checkpoint.Origin{}, nil); err != nil {
						t.Fatal(err)
					}
				}
			}
			within(t, "the end of the old activity", left)
			if ended := g.ranks[0].ended; ended.Code != exitStopped || !ended.Stopped {
				t.Errorf("ended %+v, want SIGTERM", ended)
			}
			if _, err := g.nodes[0].Attach(t.Context(), ofFirst); fault.TypeOf(err) != fault.Infrastructure {
				t.Errorf("Attach returns %v, want that there are no ranks", err)
			}
		})
	}
}

// An agent that is ended from outside says that its ranks were not asked to stop by anybody else.
func TestAgentIsEnded(t *testing.T) {
	g := startGang(t, 1, spec.Train{}, `trap 'exit 143' TERM; touch "$SLUICE_OUTPUT_DIR/up"; while true; do sleep 0.02; done`)
	g.await(t, 0, "../up")
	g.nodes[0].shutdown()
	if end := g.end(t, 0); !end.NodeStopped || !end.Stopped {
		t.Errorf("ended %+v, want one by the end of the node", end)
	}
	told := startGang(t, 1, spec.Train{}, `trap 'exit 143' TERM; touch "$SLUICE_OUTPUT_DIR/up"; while true; do sleep 0.02; done`)
	told.await(t, 0, "../up")
	if err := told.nodes[0].Stop(t.Context(), protocol.StopInput{Generation: 1, Grace: time.Minute}); err != nil {
		t.Fatal(err)
	}
	told.nodes[0].shutdown()
	if end := told.end(t, 0); end.NodeStopped || !end.Stopped {
		t.Errorf("ended %+v, want one by Stop", end)
	}
}
