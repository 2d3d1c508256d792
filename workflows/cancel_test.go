package workflows

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.temporal.io/sdk/workflow"

	"github.com/sluiceml/sluice/activities/contract"
	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/fault"
)

// slow makes a step that fails at once, and passes when it is tried again an hour later.
func slow(n spec.Node, w *world) spec.Node {
	n.Retry = spec.Retry{Attempts: 2, Backoff: spec.Duration(time.Hour), MaxBackoff: spec.Duration(time.Hour)}.WithDefaults()
	w.ends[n.ID] = []error{fault.New(fault.Infrastructure, "disk", nil)}
	return n
}

// TestCancelAfterTheMainSteps: the first cancel leaves on_failure and finally to their work, and how the run ends when the main steps are
// over. Each further one stops the section that is under way.
func TestCancelAfterTheMainSteps(t *testing.T) {
	const minute = time.Minute
	for _, tt := range []struct {
		name    string
		slow    []string // steps that take an hour
		fails   bool     // the main step does
		cancels []time.Duration
		again   []time.Duration
		want    map[string]spec.Status
		run     spec.Status
		said    string
	}{
		{
			"the main steps, once",
			[]string{"a", "page", "tidy"},
			false,
			[]time.Duration{minute},
			nil,
			map[string]spec.Status{"a": "canceled", "page": "succeeded", "tidy": "succeeded", "sweep": "succeeded"},
			"canceled", "",
		},
		{
			"each section in turn",
			[]string{"a", "page", "tidy"},
			false,
			[]time.Duration{minute},
			[]time.Duration{2 * minute, 3 * minute},
			map[string]spec.Status{"a": "canceled", "page": "canceled", "tidy": "canceled", "sweep": "canceled"},
			"canceled", "",
		},
		{
			"finally after success, once",
			[]string{"tidy"},
			false,
			[]time.Duration{minute},
			nil,
			map[string]spec.Status{"a": "succeeded", "page": "skipped", "tidy": "succeeded", "sweep": "succeeded"},
			"succeeded", spec.EventSuccess,
		},
		{
			"finally after success, twice",
			[]string{"tidy"},
			false,
			[]time.Duration{minute},
			[]time.Duration{2 * minute},
			map[string]spec.Status{"a": "succeeded", "page": "skipped", "tidy": "canceled", "sweep": "canceled"},
			"canceled", "",
		},
		{
			"on_failure, once",
			[]string{"page"},
			true,
			[]time.Duration{minute},
			nil,
			map[string]spec.Status{"a": "failed", "page": "succeeded", "tidy": "succeeded", "sweep": "succeeded"},
			"failed", spec.EventFail,
		},
		{
			"finally after a failure, twice",
			[]string{"tidy"},
			true,
			[]time.Duration{minute},
			[]time.Duration{2 * minute},
			map[string]spec.Status{"a": "failed", "page": "succeeded", "tidy": "canceled", "sweep": "canceled"},
			"failed", spec.EventFail,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := &world{ends: map[string][]error{}, begun: contract.BeginOutput{Notify: []string{spec.EventFail, spec.EventSuccess}}}
			graph := []spec.Node{
				node("a"), in(spec.SectionOnFailure, node("page")), in(spec.SectionFinally, node("tidy")),
				in(spec.SectionFinally, node("sweep", "tidy", "ended")),
			}
			for i, n := range graph {
				for _, id := range tt.slow {
					if n.ID == id {
						graph[i] = slow(n, w)
					}
				}
			}
			if tt.fails {
				w.ends["a"] = []error{userError()}
			}
			env := w.environment(t)
			said := ""
			env.RegisterWorkflowWithOptions(func(_ workflow.Context, in contract.NotifyInput) error { said += in.Event; return nil },
				workflow.RegisterOptions{Name: contract.NotifyWorkflow})
			for _, at := range tt.cancels {
				env.RegisterDelayedCallback(env.CancelWorkflow, at)
			}
			for _, at := range tt.again {
				env.RegisterDelayedCallback(func() { env.SignalWorkflow(contract.CancelSignal, nil) }, at)
			}
			env.ExecuteWorkflow(contract.PipelineWorkflow, contract.RunInput{Run: "r", Name: "p", Graph: graph})
			if diff := cmp.Diff(tt.want, w.final); diff != "" {
				t.Errorf("steps (-want +got):\n%s", diff)
			}
			if w.finished.Status != tt.run || said != tt.said {
				t.Errorf("the run ended as %+v and said %q, want %s and %q", w.finished, said, tt.run, tt.said)
			}
		})
	}
}

// TestFurtherCancelInANewHistory: Temporal takes it for the first.
func TestFurtherCancelInANewHistory(t *testing.T) {
	w := &world{ends: map[string][]error{}}
	graph := []spec.Node{node("a"), slow(in(spec.SectionFinally, node("tidy")), w)}
	env := w.environment(t)
	env.RegisterDelayedCallback(env.CancelWorkflow, time.Minute)
	env.ExecuteWorkflow(contract.PipelineWorkflow, contract.RunInput{Run: "r", Name: "p", Graph: graph, Continuation: &contract.RunContinuation{
		Canceled: true, Steps: []contract.StepState{{ID: "a", Status: spec.StatusCanceled}, {ID: "tidy", Status: spec.StatusPending}},
	}})
	if w.final["tidy"] != spec.StatusCanceled || w.finished.Status != spec.StatusCanceled {
		t.Errorf("tidy ended as %s, the run as %s", w.final["tidy"], w.finished.Status)
	}
}
