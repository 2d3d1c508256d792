package worker

import (
	"context"
	"strings"

	"github.com/sluiceml/sluice/activities/contract"
	"github.com/sluiceml/sluice/activities/engine"
	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/human"
	"github.com/sluiceml/sluice/store/record"
)

// begin is the activity that opens a run's record, and says that the run begins.
func (w *Worker) begin(e *engine.Engine) func(context.Context, contract.BeginInput) (contract.BeginOutput, error) {
	return func(ctx context.Context, in contract.BeginInput) (contract.BeginOutput, error) {
		out, err := e.Begin(ctx, in)
		if err == nil {
			what := "has started"
			if in.Trigger.Name != "" {
				what += ", by the trigger " + in.Trigger.Name
			}
			w.say(in.Run, what)
		}
		return out, err
	}
}

// finish is the activity that closes it, and says how the run has ended.
func (w *Worker) finish(e *engine.Engine) func(context.Context, contract.FinishInput) (record.RunOutput, error) {
	return func(ctx context.Context, in contract.FinishInput) (record.RunOutput, error) {
		out, err := e.Finish(ctx, in)
		if err == nil {
			what := "has ended: " + string(out.Status)
			if out.Error != "" && out.Error != string(out.Status) && out.Status != spec.StatusSucceeded {
				what += ": " + human.Line(out.Error)
			}
			w.say(in.Run, what)
		}
		return out, err
	}
}

// say makes known what has become of a run.
func (w *Worker) say(run, what string) {
	if w.notice != nil && !strings.Contains(run, ".") { // that of a child pipeline is called RUN.STEP
		w.notice("run " + run + " " + what)
	}
}
