package workflows

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"
	"pgregory.net/rapid"

	"github.com/sluiceml/sluice/activities/contract"
	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/fault"
	"github.com/sluiceml/sluice/internal/fault/boundary"
)

// TestAnyGraphWithoutATurn: whatever a run that never gets its turn would work on or clean up belongs to the run that holds its concurrency
// group. None of its steps runs, and each has an end.
//
// promise: docs/pipelines.md#p-sections-none
// promise: docs/pipelines.md#p-end-unbegun
func TestAnyGraphWithoutATurn(t *testing.T) {
	for _, refusal := range []struct {
		name string
		run  endsAs
		step spec.Status
		// happens when the run has asked for its turn.
		happens func(*environment)
	}{
		{"turned away", endsAs{spec.StatusSkipped, ""}, spec.StatusSkipped, func(env *environment) { env.SignalWorkflow(contract.TakenSignal, "other") }},
		{"canceled in the queue", endsAs{spec.StatusCanceled, fault.Canceled}, spec.StatusCanceled, func(env *environment) { env.CancelWorkflow() }},
	} {
		t.Run(refusal.name, func(t *testing.T) {
			rapid.Check(t, func(r *rapid.T) {
				w := newWorld()
				w.begun.Concurrency.Group = "g"
				lock := contract.LockWorkflowID("g")
				in := contract.RunInput{Run: "r", Name: "p"}
				want := map[string]spec.Status{}
				for _, d := range drawGraph(r) {
					d.bring(w)
					in.Graph = append(in.Graph, d.Node)
					want[d.ID] = refusal.step
				}
				grows := rapid.SampledFrom([]int{0, 200, 700}).Draw(r, "history grows by")
				follow(r, w, contract.PipelineWorkflow, in, func(env *environment, _ contract.RunInput) {
					env.grows = grows
					env.SetWorkerOptions(worker.Options{Interceptors: []interceptor.WorkerInterceptor{&boundary.Interceptor{}, &taken{id: lock}}})
					env.RegisterWorkflowWithOptions(func(_ workflow.Context, in contract.NotifyInput) error {
						r.Errorf("%s was notified", in.Event)
						return nil
					}, workflow.RegisterOptions{Name: contract.NotifyWorkflow})
					const namespace = "default-test-namespace"
					env.OnSignalExternalWorkflow(namespace, lock, "", contract.FreeSignal, in.Run).Return(nil)
					env.OnSignalExternalWorkflow(namespace, lock, "", contract.WantSignal, contract.LockRequest{Run: in.Run}).
						Return(func(string, string, string, string, any) error {
							env.RegisterDelayedCallback(func() { refusal.happens(env) }, 0)
							return nil
						})
				})
				if diff := cmp.Diff(want, w.final); diff != "" {
					r.Errorf("steps (-want +got):\n%s", diff)
				}
				if got := (endsAs{w.finished.Status, w.finished.ErrorType}); got != refusal.run {
					r.Errorf("the run ended as %v", got)
				}
				if len(w.started) > 0 {
					r.Errorf("%v were started", w.started)
				}
			})
		})
	}
}

// taken lets no child start with a workflow ID, which the test environment would refuse with another error than a server.
type taken struct {
	interceptor.WorkerInterceptorBase
	id string
}

func (t *taken) InterceptWorkflow(_ workflow.Context, next interceptor.WorkflowInboundInterceptor) interceptor.WorkflowInboundInterceptor {
	return &takenInbound{interceptor.WorkflowInboundInterceptorBase{Next: next}, t.id}
}

type takenInbound struct {
	interceptor.WorkflowInboundInterceptorBase
	id string
}

func (t *takenInbound) Init(next interceptor.WorkflowOutboundInterceptor) error {
	return t.Next.Init(&takenOutbound{interceptor.WorkflowOutboundInterceptorBase{Next: next}, t.id})
}

type takenOutbound struct {
	interceptor.WorkflowOutboundInterceptorBase
	id string
}

func (t *takenOutbound) ExecuteChildWorkflow(ctx workflow.Context, name string, args ...any) workflow.ChildWorkflowFuture {
	if workflow.GetChildWorkflowOptions(ctx).WorkflowID != t.id {
		return t.Next.ExecuteChildWorkflow(ctx, name, args...)
	}
	future, end := workflow.NewFuture(ctx)
	end.SetError(&temporal.ChildWorkflowExecutionAlreadyStartedError{})
	return unstarted{future}
}

// unstarted is a child that was not started.
type unstarted struct{ workflow.Future }

func (u unstarted) GetChildWorkflowExecution() workflow.Future { return u }

func (u unstarted) SignalChildWorkflow(workflow.Context, string, any) workflow.Future { return u }
