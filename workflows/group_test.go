package workflows

import (
	"slices"
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
func TestAnyGraphWithoutATurn(t *testing.T) {
	for _, refusal := range []struct {
		name  string
		child bool // the run is r.child, and r its parent
		by    string
		run   endsAs
		step  spec.Status
		news  []string
	}{
		{name: "turned away", by: "other", run: endsAs{spec.StatusSkipped, ""}, step: spec.StatusSkipped},
		{name: "canceled in the queue", run: endsAs{spec.StatusCanceled, fault.Canceled}, step: spec.StatusCanceled},
		{name: "a child is turned away", child: true, by: "other", run: endsAs{spec.StatusSkipped, ""}, step: spec.StatusSkipped},
		{
			name: "its parent holds the group", child: true, by: "r", run: endsAs{spec.StatusFailed, fault.Invalid}, step: spec.StatusUpstream,
			news: []string{spec.EventFail},
		},
	} {
		t.Run(refusal.name, func(t *testing.T) {
			rapid.Check(t, func(r *rapid.T) {
				w := newWorld()
				w.begun.Concurrency.Group = "g"
				lock := contract.LockWorkflowID("g")
				in := contract.RunInput{Run: "r", Name: "p"}
				if refusal.child {
					in.Run = "r.child"
				}
				want := map[string]spec.Status{}
				for _, d := range drawGraph(r) {
					d.bring(w)
					in.Graph = append(in.Graph, d.Node)
					want[d.ID] = refusal.step
				}
				grows := rapid.SampledFrom([]int{0, 200, 700}).Draw(r, "history grows by")
				var news []string
				follow(r, w, contract.PipelineWorkflow, in, func(env *environment, _ contract.RunInput) {
					env.grows = grows
					env.SetWorkerOptions(worker.Options{Interceptors: []interceptor.WorkerInterceptor{&boundary.Interceptor{}, &taken{id: lock, child: refusal.child}}})
					env.RegisterWorkflowWithOptions(func(_ workflow.Context, in contract.NotifyInput) error {
						news = append(news, in.Event)
						return nil
					}, workflow.RegisterOptions{Name: contract.NotifyWorkflow})
					const namespace = "default-test-namespace"
					env.OnSignalExternalWorkflow(namespace, lock, "", contract.FreeSignal, in.Run).Return(nil)
					env.OnSignalExternalWorkflow(namespace, lock, "", contract.WantSignal, contract.LockRequest{Run: in.Run, Child: refusal.child}).
						Return(func(string, string, string, string, any) error {
							env.RegisterDelayedCallback(func() {
								if refusal.by == "" {
									env.CancelWorkflow()
									return
								}
								env.SignalWorkflow(contract.TakenSignal, refusal.by)
							}, 0)
							return nil
						})
				})
				if diff := cmp.Diff(want, w.final); diff != "" {
					r.Errorf("steps (-want +got):\n%s", diff)
				}
				if got := (endsAs{w.finished.Status, w.finished.ErrorType}); got != refusal.run {
					r.Errorf("the run ended as %v", got)
				}
				if len(w.started) > 0 || !slices.Equal(news, refusal.news) {
					r.Errorf("%v were started, and %v notified", w.started, news)
				}
			})
		})
	}
}

// A queued run reads what others have done when it has its turn, and does nothing without.
func TestAQueuedRunSettlesAtItsTurn(t *testing.T) {
	for name, failure := range map[string]error{"settled": nil, "not settled": fault.New(fault.Invalid, "the store is broken", nil)} {
		t.Run(name, func(t *testing.T) {
			w := newWorld()
			w.unsettled, w.begun = failure, contract.BeginOutput{Concurrency: spec.Concurrency{Group: "g"}}
			lock := contract.LockWorkflowID("g")
			env := w.environment(t)
			env.SetWorkerOptions(worker.Options{Interceptors: []interceptor.WorkerInterceptor{&boundary.Interceptor{}, &taken{id: lock}}})
			const namespace = "default-test-namespace"
			before, freed := -1, 0
			env.OnSignalExternalWorkflow(namespace, lock, "", contract.WantSignal, contract.LockRequest{Run: "r"}).
				Return(func(string, string, string, string, any) error {
					env.RegisterDelayedCallback(func() {
						w.mu.Lock()
						before = w.settled
						w.mu.Unlock()
						env.SignalWorkflow(contract.TurnSignal, nil)
					}, 0)
					return nil
				})
			env.OnSignalExternalWorkflow(namespace, lock, "", contract.FreeSignal, "r").
				Return(func(string, string, string, string, any) error { freed++; return nil })
			env.ExecuteWorkflow(contract.PipelineWorkflow, contract.RunInput{Run: "r", Name: "p", Graph: []spec.Node{node("a")}})
			if before != 0 || w.settled != 1 || freed != 1 {
				t.Errorf("it was settled %d times before its turn, and %d times in all; the lock was released %d times", before, w.settled, freed)
			}
			if done := len(w.started) == 1; done != (failure == nil) || (w.finished.Status == spec.StatusFailed) != (failure != nil) {
				t.Errorf("the run ended as %+v, and did %v", w.finished, w.started)
			}
		})
	}
}

// taken lets no child start with a workflow ID, which the test environment would refuse with another error than a server, and may make the
// workflow a child.
type taken struct {
	interceptor.WorkerInterceptorBase
	id    string
	child bool
}

func (t *taken) InterceptWorkflow(_ workflow.Context, next interceptor.WorkflowInboundInterceptor) interceptor.WorkflowInboundInterceptor {
	return &takenInbound{interceptor.WorkflowInboundInterceptorBase{Next: next}, t}
}

type takenInbound struct {
	interceptor.WorkflowInboundInterceptorBase
	*taken
}

func (t *takenInbound) Init(next interceptor.WorkflowOutboundInterceptor) error {
	return t.Next.Init(&takenOutbound{interceptor.WorkflowOutboundInterceptorBase{Next: next}, t.taken})
}

type takenOutbound struct {
	interceptor.WorkflowOutboundInterceptorBase
	*taken
}

func (t *takenOutbound) GetInfo(ctx workflow.Context) *workflow.Info {
	info := *t.Next.GetInfo(ctx)
	if t.child {
		info.ParentWorkflowExecution = &workflow.Execution{ID: contract.RunWorkflowID("r")}
	}
	return &info
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
