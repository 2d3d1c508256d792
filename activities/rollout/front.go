package rollout

import (
	"context"
	"errors"

	"go.temporal.io/sdk/activity"

	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/fault"
	"github.com/sluiceml/sluice/serving/gateway"
	"github.com/sluiceml/sluice/serving/routing"
	"github.com/sluiceml/sluice/store/record"
)

// described is a rollout's target as the environment of its run describes it.
func (r *Rollouts) described(ctx context.Context, in record.StepInput, target string) (spec.ServedTarget, error) {
	sub, err := r.Engine.Submission(ctx, in.Submission)
	if err != nil {
		return spec.ServedTarget{}, err
	}
	return sub.Program.Environment().Serve(target), nil
}

// checkFront refuses a rollout whose environment has a front that its target could not get with the promotion.
func (r *Rollouts) checkFront(ctx context.Context, in record.StepInput, rolled spec.Rollout, doc routing.Document) error {
	if r.CheckFront == nil || !doc.Protected() {
		return nil
	}
	env, err := r.described(ctx, in, rolled.Target)
	if err != nil {
		return err
	}
	err = r.CheckFront(ctx, rolled.Target, env)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, gateway.ErrPortInUse), fault.TypeOf(err) == fault.Invalid:
		return fault.New(fault.Invalid, fault.Message(err), err)
	}
	return fault.New(fault.Infrastructure, err.Error(), err)
}

// promote gives the candidate all traffic, and then the target the front of the candidate's environment. It returns the target's URL.
//
// The front has a revision of its own after that of the traffic: gateways that change theirs begin anew, and who waits for the traffic would
// take that for a failure.
func (r *Rollouts) promote(ctx context.Context, in record.StepInput, rolled spec.Rollout, target *gateway.Target, split gateway.Split) (string, error) {
	doc, err := target.Current(ctx)
	if err != nil {
		return "", err
	}
	if err := r.checkFront(ctx, in, rolled, doc); err != nil {
		return "", err
	}
	if err := r.force(ctx, target, split); err != nil {
		return "", err
	}
	env, err := r.described(ctx, in, rolled.Target)
	if err != nil || r.Turn == nil {
		return target.URL(), err
	}
	if doc, err = r.setFront(ctx, in, rolled.Target, env.Front()); err != nil {
		return "", err
	}
	url, err := r.Turn(ctx, rolled.Target, env, doc.Revision)
	if err != nil { // all traffic has moved, and the front before is not worth moving it back
		activity.GetLogger(ctx).Warn("the target keeps its port and whom it lets in", "target", rolled.Target, "error", err)
		return target.URL(), nil
	}
	return url, nil
}

// setFront writes a front to the target's document, unless it is there.
func (r *Rollouts) setFront(ctx context.Context, in record.StepInput, target string, front spec.Front) (routing.Document, error) {
	for {
		doc, err := routing.Current(ctx, r.Store, target)
		if err != nil || doc.Front != nil && doc.Front.Is(front) {
			return doc, err
		}
		doc.Front, doc.By, doc.Reason = &front, by(in), "promoted with another environment"
		if doc, err = routing.Set(ctx, r.Store, doc.Revision, doc); !errors.Is(err, routing.ErrConflict) {
			return doc, err
		}
	}
}
