package workflows

import (
	"go.temporal.io/sdk/workflow"

	"github.com/sluiceml/sluice/activities/contract"
	"github.com/sluiceml/sluice/internal/fault"
	"github.com/sluiceml/sluice/workflows/durable"
)

// listen lets people act on the rollout: see contract.RolloutOrder.
func (r *rollout) listen(ctx workflow.Context) error {
	return workflow.SetUpdateHandlerWithOptions(ctx, contract.RolloutUpdate, r.obey, workflow.UpdateHandlerOptions{Validator: r.validate})
}

// validate rejects an order that is not possible now. It changes nothing.
func (r *rollout) validate(o contract.RolloutOrder) error {
	s := r.at.State
	var ends string // what the rollout is about to end as
	switch {
	case s.Ordered != nil:
		ends = s.Ordered.Action
	case s.Phase == phasePromoting, s.Phase == phaseDone && s.Decision == "promoted":
		ends = contract.RolloutPromote
	case s.Phase == phaseRollingBack, s.Phase == phaseDone:
		ends = contract.RolloutAbort
	}
	switch o.Action {
	case contract.RolloutPause, contract.RolloutResume, contract.RolloutPromote, contract.RolloutAbort:
	default:
		return fault.Errorf(fault.Invalid, "a rollout has no action %q", o.Action)
	}
	being := map[string]string{contract.RolloutPromote: "promoted", contract.RolloutAbort: "rolled back"}[ends]
	switch {
	case o.By == "":
		return fault.Errorf(fault.Invalid, "`by` is empty: it must be the name of the user who orders it")
	case ends == o.Action: // once more
		return nil
	case ends != "" && s.Ordered != nil:
		return fault.Errorf(fault.Invalid, "release %s is already being %s: %s", s.Version, being, r.ordered())
	case ends != "":
		return fault.Errorf(fault.Invalid, "release %s is already being %s", s.Version, being)
	case o.Action == contract.RolloutPromote && s.Phase == phaseLoading:
		return fault.Errorf(fault.Invalid, "the candidate is still being loaded: promote it once its first stage has begun")
	}
	return nil
}

// obey executes an order. An order that ends the rollout is answered when the rollout has ended.
func (r *rollout) obey(ctx workflow.Context, o contract.RolloutOrder) (contract.RolloutState, error) {
	s := &r.at.State
	o.At = workflow.Now(ctx)
	switch o.Action {
	case contract.RolloutPause:
		if s.Paused == nil {
			s.Paused = &o
			r.announce(ctx, saidOf("paused", o))
		}
	case contract.RolloutResume:
		if s.Paused != nil {
			since := s.Paused.At
			if since.Before(r.at.Began) {
				since = r.at.Began
			}
			r.at.Held += o.At.Sub(since)
			s.Paused = nil
			r.announce(ctx, saidOf("resumed", o))
		}
	default:
		if s.Ordered == nil && s.Phase != phasePromoting && s.Phase != phaseRollingBack {
			s.Ordered = &o
			r.announce(ctx, r.ordered())
		}
		if err := workflow.Await(ctx, func() bool { return s.Phase == phaseDone }); err != nil {
			return *s, err
		}
		if s.Decision == "" { // neither promoted nor rolled back
			return *s, fault.Errorf(fault.Infrastructure, "the rollout failed: %s", fault.Message(r.failed))
		}
	}
	return *s, nil
}

// announce shows an order on the pages of Temporal's UI.
func (r *rollout) announce(ctx workflow.Context, text string) {
	r.show(ctx)
	durable.Tell(ctx, contract.Note{Step: r.in.Step, Text: text})
}

// ordered says who has ordered the end of the rollout, and why; it is empty if nobody has.
func (r *rollout) ordered() string {
	switch o := r.at.State.Ordered; {
	case o == nil:
		return ""
	case o.Action == contract.RolloutPromote:
		return saidOf("promoted", *o)
	default:
		return saidOf("aborted", *o)
	}
}

// saidOf describes an order for people.
func saidOf(done string, o contract.RolloutOrder) string {
	text := done + " by " + o.By
	if o.Reason != "" {
		text += ": " + o.Reason
	}
	return text
}

// awaitResume waits while the rollout is paused, until somebody orders its end or it is canceled.
func (r *rollout) awaitResume(ctx workflow.Context) error {
	return workflow.Await(ctx, func() bool { return r.at.State.Paused == nil || r.at.State.Ordered != nil })
}

// await waits for an order or for the end of an activity. A cancellation is delivered to the activity, which then ends.
func (r *rollout) await(ctx workflow.Context, done func() bool) {
	waiting, _ := workflow.NewDisconnectedContext(ctx)
	_ = workflow.Await(waiting, done) // its context is never cancelled
}
