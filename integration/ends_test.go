package integration

import (
	"context"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.temporal.io/sdk/client"

	"github.com/sluiceml/sluice/activities/contract"
	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/fault"
	"github.com/sluiceml/sluice/internal/testing/historytest"
	"github.com/sluiceml/sluice/internal/testing/noop"
	"github.com/sluiceml/sluice/store/record"
)

// ends is a pipeline with one of everything that has a history of its own.
const ends = `sluice: pipeline/v1
name: ends
params: {hold: {type: bool, default: false}}
steps:
  first:
    run: {command: [noop], outputs: {n: {type: int}}}
    gate: {check: "!params.hold", on_fail: hold}
  fit:
    needs: [first]
    foreach: lists.range(20)
    require: 90%
    run: {command: [noop], outputs: {n: {type: int}}}
  again:
    needs: [first]
    repeat: {until: index == 2}
    run: {command: [noop], outputs: {n: {type: int}}}
  ask:
    needs: [first]
    approval: {message: "go on?", timeout: 1s, default: approve}
  child:
    needs: [fit, again, ask]
    pipeline:
      params: {k: "${steps.fit.size()}"}
      steps:
        inner: {run: {command: [noop], outputs: {n: {type: int}}}, gate: params.k == 19}
      outputs: {n: "${steps.inner.n}"}
on_failure:
  page: {run: {command: [noop]}}
finally:
  tidy: {run: {command: [noop]}}
`

// TestEnds: holds, instances, repeats, approvals and child pipelines on the real server. It records what workflows/ replays.
func TestEnds(t *testing.T) {
	e := newEngine(t, func(ctx context.Context, in record.StepInput) (record.StepOutput, error) {
		if in.Step == "fit.7" {
			return record.StepOutput{}, fault.New(fault.User, "exit code 1", nil)
		}
		return noop.Nothing(ctx, in)
	})
	in := e.submit(ends)
	held, err := noop.Submit(t.Context(), e.store, strings.Replace(ends, "default: false", "default: true", 1))
	if err != nil {
		t.Fatal(err)
	}
	const succeeded, failed, skipped, upstream = spec.StatusSucceeded, spec.StatusFailed, spec.StatusSkipped, spec.StatusUpstream
	good := map[string]spec.Status{
		"first": succeeded, "fit": succeeded, "again": succeeded, "ask": succeeded, "child": succeeded, "page": skipped, "tidy": succeeded,
	}
	tests := []struct {
		name    string
		in      contract.RunInput
		approve *bool
		want    map[string]spec.Status
	}{
		{"plain", in, nil, good},
		{"approved", held, ptr(true), good},
		{"rejected", held, ptr(false), map[string]spec.Status{
			"first": failed, "fit": upstream, "again": upstream, "ask": upstream, "child": upstream, "page": succeeded, "tidy": succeeded,
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			run := e.start(tt.name, tt.in)
			if tt.approve != nil {
				e.decide(contract.ApprovalWorkflowID(tt.name, "first"), contract.Decide{Approve: *tt.approve, By: "ann"})
			}
			_ = run.Get(t.Context(), nil) // its record says it better
			record, err := record.LoadRun(t.Context(), e.store, tt.name)
			if err != nil {
				t.Fatal(err)
			}
			got := map[string]spec.Status{}
			for _, s := range record.Steps {
				got[s.Step] = s.Status
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("steps (-want +got):\n%s", diff)
			}
			historytest.Record(t, e.client, run.GetID(), "pipeline-"+tt.name)
			if tt.approve != nil {
				historytest.Record(t, e.client, contract.ApprovalWorkflowID(tt.name, "first"), "approval-"+tt.name)
			}
		})
	}
	historytest.Record(t, e.client, contract.ApprovalWorkflowID("plain", "ask"), "approval-default")
	lane := contract.LaneWorkflowID("plain", "fit", 0)
	historytest.Record(t, e.client, lane, "lane-foreach")
	if verdicts := historytest.Verdicts(t, e.client, lane); len(verdicts) != 20 || !slices.Contains(verdicts, "fit.7: failed: exit code 1") {
		t.Errorf("Temporal's UI says of the instances %q", verdicts)
	}
	historytest.Record(t, e.client, contract.LaneWorkflowID("plain", "again", 0), "lane-repeat")
	historytest.Record(t, e.client, contract.RunWorkflowID(record.ChildRun("plain", "child", 1)), "pipeline-child")
}

func ptr[T any](v T) *T { return &v }

// decide decides on what a workflow asks, once it is there.
func (e *engineProcess) decide(id string, d contract.Decide) {
	e.t.Helper()
	s := site{t: e.t}
	s.await("the question", func() bool {
		_, err := e.client.QueryWorkflow(e.t.Context(), id, "", contract.StateQuery)
		return err == nil
	})
	handle, err := e.client.UpdateWorkflow(e.t.Context(), client.UpdateWorkflowOptions{
		WorkflowID: id, UpdateName: contract.DecideUpdate, Args: []any{d}, WaitForStage: client.WorkflowUpdateStageCompleted,
	})
	if err != nil {
		e.t.Fatal(err)
	}
	if err := handle.Get(e.t.Context(), nil); err != nil {
		e.t.Fatal(err)
	}
}

// TestContinued: a run, and a lane, whose histories are continued. Both are recorded, to their end and from there.
func TestContinued(t *testing.T) {
	var done atomic.Int64
	e := newEngine(t, func(ctx context.Context, in record.StepInput) (record.StepOutput, error) {
		done.Add(1)
		return noop.Nothing(ctx, in)
	})
	tests := []struct{ name, source, id string }{
		{"pipeline", chain(450), contract.RunWorkflowID("pipeline")},
		{"lane", foreach(900), contract.LaneWorkflowID("lane", "fit", 0)},
	}
	for _, tt := range tests {
		source := strings.Replace(tt.source, "max_parallel: 200", "max_parallel: 8", 1)
		done.Store(0)
		run := e.start(tt.name, e.submit(source))
		if err := run.Get(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
		if want := map[string]int64{"pipeline": 450, "lane": 901}[tt.name]; done.Load() != want {
			t.Errorf("%s: %d were done, want %d", tt.name, done.Load(), want)
		}
		var histories []string // newest first
		e.awaitNoneOpen()
		for _, w := range e.all("WorkflowId = '" + tt.id + "'") {
			histories = append(histories, w.GetExecution().GetRunId())
		}
		if len(histories) < 2 {
			t.Fatalf("%s has %d histories, want two or more", tt.id, len(histories))
		}
		historytest.RecordRun(t, e.client, tt.id, histories[len(histories)-1], tt.name+"-long")
		historytest.RecordRun(t, e.client, tt.id, histories[0], tt.name+"-carried")
	}
}
