package workflows

import (
	"context"
	"errors"
	"testing"

	"go.temporal.io/sdk/activity"

	"github.com/sluiceml/sluice/activities/contract"
	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/store/record"
)

// Older runs are removed when the record of the run is closed, however it ended, where the pipeline says so; and no run fails of it.
func TestKeepFollowsTheEnd(t *testing.T) {
	for name, test := range map[string]struct {
		keeps    bool
		fails    bool
		cancel   bool
		attempts int
		want     spec.Status
	}{
		"without":  {want: spec.StatusSucceeded},
		"with":     {keeps: true, attempts: 1, want: spec.StatusSucceeded},
		"fails":    {keeps: true, fails: true, attempts: keepAttempts, want: spec.StatusSucceeded},
		"canceled": {keeps: true, cancel: true, attempts: 1, want: spec.StatusCanceled},
	} {
		t.Run(name, func(t *testing.T) {
			w := &world{begun: contract.BeginOutput{Keeps: test.keeps}}
			env := w.environment(t)
			attempts := 0
			env.RegisterActivityWithOptions(func(_ context.Context, in contract.KeepInput) error {
				if attempts++; in != (contract.KeepInput{Run: "r", Submission: "s"}) || w.finished.Status != test.want {
					t.Errorf("asked for %+v while the record says %q", in, w.finished.Status)
				}
				if test.fails {
					return errors.New("the store is away")
				}
				return nil
			}, activity.RegisterOptions{Name: contract.KeepActivity})
			if test.cancel {
				env.RegisterDelayedCallback(env.CancelWorkflow, 0)
			}
			env.ExecuteWorkflow(contract.PipelineWorkflow, contract.RunInput{Run: "r", Name: "p", Submission: "s", Graph: []spec.Node{node("a")}})
			var out record.RunOutput
			if err := env.GetWorkflowResult(&out); !test.cancel && (err != nil || out.Status != test.want) {
				t.Errorf("the run ends as %q, %v", out.Status, err)
			}
			if attempts != test.attempts {
				t.Errorf("%d attempts, want %d", attempts, test.attempts)
			}
		})
	}
}
