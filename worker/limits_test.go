package worker

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/history/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"
	"go.temporal.io/server/common/dynamicconfig"

	"github.com/sluiceml/sluice/activities/contract"
	"github.com/sluiceml/sluice/connect/embedded"
	"github.com/sluiceml/sluice/control"
	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/testing/historytest"
	"github.com/sluiceml/sluice/serving/onnx/onnxtest"
	"github.com/sluiceml/sluice/serving/routing"
	"github.com/sluiceml/sluice/workflows/durable"
)

// cramped is how many times smaller the server's limits are in the tests of long waits, and how many times as often workflows look.
const cramped = 100

// crampedSession is a session of its own, on a server that suggests a new history and ends workflows cramped times as soon.
func crampedSession(t *testing.T) *control.Session {
	t.Helper()
	p := open(t, control.Options{
		StateDir: t.TempDir(),
		Settings: embedded.Settings{
			dynamicconfig.HistoryCountSuggestContinueAsNew.Key(): 4 << 10 / cramped,
			dynamicconfig.HistoryCountLimitWarn.Key():            10 << 10 / cramped,
			dynamicconfig.HistoryCountLimitError.Key():           50 << 10 / cramped,
			dynamicconfig.HistorySizeSuggestContinueAsNew.Key():  4 << 20 / cramped,
			dynamicconfig.HistorySizeLimitWarn.Key():             10 << 20 / cramped,
			dynamicconfig.HistorySizeLimitError.Key():            50 << 20 / cramped,
		},
	}, Options{interceptors: []interceptor.WorkerInterceptor{&hasty{}}})
	closeAfter(t, p)
	return p.Session
}

// hasty hastens every workflow of a worker.
type hasty struct {
	interceptor.WorkerInterceptorBase
}

func (*hasty) InterceptWorkflow(_ workflow.Context, next interceptor.WorkflowInboundInterceptor) interceptor.WorkflowInboundInterceptor {
	return &hastyWorkflow{interceptor.WorkflowInboundInterceptorBase{Next: next}}
}

type hastyWorkflow struct {
	interceptor.WorkflowInboundInterceptorBase
}

func (h *hastyWorkflow) ExecuteWorkflow(ctx workflow.Context, in *interceptor.ExecuteWorkflowInput) (any, error) {
	return h.Next.ExecuteWorkflow(durable.Hasten(ctx, cramped), in)
}

// historyPart is one of a workflow's histories.
type historyPart struct {
	run    string
	events int
	input  *commonpb.Payloads
}

// historyParts are a workflow's histories, the newest first.
func historyParts(t *testing.T, s *control.Session, id string) (all []historyPart) {
	t.Helper()
	for run := ""; ; {
		var events []*history.HistoryEvent
		for more := s.Client.GetWorkflowHistory(t.Context(), id, run, false, enums.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT); more.HasNext(); {
			event, err := more.Next()
			if err != nil {
				t.Fatalf("the history of %s: %v", id, err)
			}
			events = append(events, event)
		}
		started := events[0].GetWorkflowExecutionStartedEventAttributes()
		all = append(all, historyPart{started.GetOriginalExecutionRunId(), len(events), started.GetInput()})
		if run = started.GetContinuedExecutionRunId(); run == "" {
			return all
		}
	}
}

// checkParts wants all of a workflow's histories to be short.
func checkParts(t *testing.T, id string, all []historyPart) {
	t.Helper()
	for _, p := range all {
		if p.events > cramped {
			t.Errorf("a history of %s has %d events, want at most %d", id, p.events, cramped)
		}
	}
}

// awaitParts waits until a workflow is in its third history, and returns the first.
func awaitParts(t *testing.T, s *control.Session, id string) historyPart {
	t.Helper()
	var all []historyPart
	await(t, id+" to go on in a third history", func() bool {
		all = historyParts(t, s, id)
		return len(all) >= 3 || all[0].events > cramped
	})
	checkParts(t, id, all)
	return all[len(all)-1]
}

// terminated lists the workflows that the server, or somebody, has ended by force.
func terminated(t *testing.T, s *control.Session) (ids []string) {
	t.Helper()
	found, err := s.Client.ListWorkflow(t.Context(), &workflowservice.ListWorkflowExecutionsRequest{Query: "ExecutionStatus = 'Terminated'"})
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range found.GetExecutions() {
		ids = append(ids, w.GetExecution().GetWorkflowId())
	}
	return ids
}

// TestWaitsReachNoLimit: whatever waits for long, a queued run with its lock, a rollout that is not decided or a run whose rollout waits
// for that one, goes on in new histories before the server ends it, and has its turn in the end.
func TestWaitsReachNoLimit(t *testing.T) {
	t.Parallel()
	s := crampedSession(t)
	dir := t.TempDir()
	file := project(t, queued, nil)
	enqueue := func(n string) string {
		return submit(t, s, control.SubmitRequest{PipelineFile: file, Params: map[string]string{"go": filepath.Join(dir, "go"), "n": n}}).Run
	}
	state := func(run string) contract.RunState {
		state, err := s.State(t.Context(), run)
		if err != nil {
			t.Fatal(err)
		}
		return state
	}
	holds := enqueue("0")
	await(t, holds+" to hold the group", func() bool { return state(holds).Steps[0].Status == spec.StatusRunning })
	waits := enqueue("1")

	port := freePort(t)
	target := fmt.Sprintf("words_%d", port)
	undecided := ship(t, s, embeddedAs(target, port), target, onnxtest.Text, "SAMPLES", "1000000")
	awaitDetail(t, s, undecided, "ship", func(d control.Detail) bool { return d.Rollout != nil && d.Rollout.Stage == 2 })
	behind := ship(t, s, embeddedAs(target, port), target, onnxtest.TextClose, "SAMPLES", "1000000")
	await(t, behind+" to wait for the target", func() bool { return strings.Contains(state(behind).Steps[1].Summary, "waiting") })
	awaitDetail(t, s, behind, "ship", func(d control.Detail) bool {
		return d.Rollout == nil && d.Text == "waits for the rollout of "+undecided
	})

	for name, id := range map[string]string{
		"pipeline-queued": contract.RunWorkflowID(waits), "lock-carried": contract.LockWorkflowID("queued"), "rollout-carried": contract.RolloutWorkflowID(target),
	} {
		first := awaitParts(t, s, id)
		historytest.RecordRun(t, s.Client, id, first.run, name)
	}
	var released contract.RolloutInput
	if err := s.Codec.DataConverter().FromPayloads(historyParts(t, s, contract.RolloutWorkflowID(target))[0].input, &released); err != nil {
		t.Fatal(err)
	}
	if at := released.Continuation; at == nil || at.Sent == 0 || len(at.Results) != 2 || at.State.Stage != 2 {
		t.Errorf("the rollout goes on from %+v, want its second stage, after some replayed rows", at)
	}
	await(t, waits+" to say what it waits for, in each of its histories anew", func() bool { return strings.Contains(state(waits).Waits, "queued") })

	touch(t, filepath.Join(dir, "go"))
	for _, run := range []string{holds, waits} {
		if out, _ := wait(t, s, run); out.Status != spec.StatusSucceeded {
			t.Errorf("%s ended as %+v", run, out)
		}
	}
	end(t, s, undecided)
	awaitDetail(t, s, behind, "ship", func(d control.Detail) bool { return d.Rollout != nil && d.Rollout.Version == "2" })
	var settled routing.Outcome
	if err := s.Store.GetJSON(context.WithoutCancel(t.Context()), "releases/"+target+"/1.json", &settled); err != nil || settled.Decision != "rolled_back" {
		t.Errorf("the rollout that was canceled left %+v, %v", settled, err)
	}
	end(t, s, behind)
	historytest.Record(t, s.Client, contract.RunWorkflowID(behind), "pipeline-behind")
	for _, id := range []string{
		contract.RunWorkflowID(waits), contract.RunWorkflowID(undecided), contract.RunWorkflowID(behind), contract.RolloutWorkflowID(target),
	} {
		checkParts(t, id, historyParts(t, s, id))
	}
	if ids := terminated(t, s); len(ids) > 0 {
		t.Errorf("the server terminated %q", ids)
	}
}

// TestManyPublishedNames: a run that publishes more names than Temporal lets it be found by ends as any other, and is found by the newest.
func TestManyPublishedNames(t *testing.T) {
	t.Parallel()
	s := session(t)
	const names = 40
	var outputs, publish []string
	for i := range names {
		outputs = append(outputs, fmt.Sprintf("d%d: {type: dataset, path: data}", i))
		publish = append(publish, fmt.Sprintf("d%d: %s", i, fmt.Sprintf("n%062d", i)))
	}
	run := submit(t, s, control.SubmitRequest{PipelineFile: project(t, `name: many
steps:
  make:
    run:
      script: 'mkdir "$SLUICE_OUTPUT_DIR/data"; echo {} > "$SLUICE_OUTPUT_DIR/data/x"; echo "{\"rows\": 1}" > "$SLUICE_OUTPUT_DIR/outputs.json"'
      outputs: {rows: {type: int}, `+strings.Join(outputs, ", ")+`}
    gate: rows > 0
    publish: {`+strings.Join(publish, ", ")+"}\n", nil)}).Run
	if out, _ := wait(t, s, run); out.Status != spec.StatusSucceeded {
		t.Fatalf("the run ended as %+v", out)
	}
	desc, err := s.Client.DescribeWorkflow(t.Context(), contract.RunWorkflowID(run), "")
	if err != nil {
		t.Fatal(err)
	}
	if desc.Status != enums.WORKFLOW_EXECUTION_STATUS_COMPLETED {
		t.Errorf("its workflow is %v", desc.Status)
	}
	found, _ := desc.TypedSearchAttributes.GetKeywordList(temporal.NewSearchAttributeKeyKeywordList(contract.SearchDataset))
	if len(found) < 25 || len(found) >= names {
		t.Errorf("it is found by %d names, want as many as there is room for: %q", len(found), found)
	}
}
