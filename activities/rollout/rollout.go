// Package rollout has the side effects of the rollout of a release.
package rollout

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/sluiceml/sluice/activities"
	"github.com/sluiceml/sluice/activities/contract"
	"github.com/sluiceml/sluice/activities/engine"
	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/fault"
	"github.com/sluiceml/sluice/internal/heartbeat"
	"github.com/sluiceml/sluice/internal/telemetry/prom"
	"github.com/sluiceml/sluice/serving/answer"
	"github.com/sluiceml/sluice/serving/gateway"
	"github.com/sluiceml/sluice/serving/routing"
	"github.com/sluiceml/sluice/store"
	"github.com/sluiceml/sluice/store/record"
	"github.com/sluiceml/sluice/training/protocol"
)

// Rollouts has the activities of the kind `rollout`.
type Rollouts struct {
	Store *store.Store
	// State is the state folder.
	State string
	// Engine loads the environments of submissions.
	Engine *engine.Engine
	// Gauges receive the evidence of the current stage. It may be nil.
	Gauges *prom.Gauges
	// Target opens a serving target as its environment describes it.
	Target func(ctx context.Context, name string, spec spec.ServedTarget) (*gateway.Target, error)
	// CheckFront says why Turn could not, and Turn gives the gateways of a target the front of an environment, which the document of this
	// revision has, and returns the target's URL.
	CheckFront func(ctx context.Context, name string, spec spec.ServedTarget) error
	Turn       func(ctx context.Context, name string, spec spec.ServedTarget, revision int64) (string, error)
}

// target opens the target of a rollout step.
func (r *Rollouts) target(ctx context.Context, in record.StepInput) (*gateway.Target, spec.Rollout, error) {
	spec, err := record.LoadSpec[spec.Rollout](ctx, r.Store, in)
	if err != nil {
		return nil, spec, err
	}
	sub, err := r.Engine.Submission(ctx, in.Submission)
	if err != nil {
		return nil, spec, err
	}
	t, err := r.Target(ctx, spec.Target, sub.Program.Environment().Serve(spec.Target))
	if err != nil {
		return nil, spec, fault.New(fault.Infrastructure, err.Error(), err)
	}
	return t, spec, nil
}

// Open loads the candidate at its target and returns when the candidate can take traffic. It does not disturb the serving release.
func (r *Rollouts) Open(ctx context.Context, in record.StepInput) (contract.RolloutOpened, error) {
	var loading atomic.Value
	loading.Store("loading the model")
	heartbeat.Show(ctx, func() any { return protocol.Progress{Text: loading.Load().(string), Share: -1} })
	target, spec, err := r.target(ctx, in)
	switch {
	case errors.Is(err, gateway.ErrPortInUse), fault.TypeOf(errors.Unwrap(err)) == fault.Invalid: // which does not end by itself: the user must hear of it now
		return contract.RolloutOpened{}, fault.New(fault.Invalid, fault.Message(err), err)
	case err != nil:
		return contract.RolloutOpened{}, fault.Final(err)
	}
	if err := r.refused(ctx, in, spec); err != nil {
		return contract.RolloutOpened{}, err
	}
	doc, err := target.Current(ctx)
	if err != nil {
		return contract.RolloutOpened{}, err
	}
	if err := refuseSecond(doc, in); err != nil {
		return contract.RolloutOpened{}, err
	}
	if err := r.refuseTakenBack(ctx, in, spec); err != nil {
		return contract.RolloutOpened{}, err
	}
	if err := r.Engine.Recheck(ctx, in, spec.Target); err != nil {
		return contract.RolloutOpened{}, err
	}
	if err := r.checkFront(ctx, in, spec, doc); err != nil {
		return contract.RolloutOpened{}, err
	}
	opened := contract.RolloutOpened{URL: target.URL()}
	if previous, ok := doc.Serving(); ok {
		opened.Previous = previous.Version
	}
	candidate := routing.Release{Model: spec.Model, Run: in.Run, Step: in.Step, Compare: spec.Compare}
	if candidate.WarmUp, err = r.warmUpOf(ctx, spec); err != nil {
		return contract.RolloutOpened{}, err
	}
	if spec.Tests.Loss != nil {
		candidate.LossBound = spec.Tests.Loss.Bound
	}
	doc, release, err := target.Load(ctx, doc.Revision, candidate, func(what string) { loading.Store("loading the model: " + what) })
	if _, ok := errors.AsType[*gateway.LoadError](err); ok {
		return opened, fault.New(fault.User, errors.Join(err, r.withdraw(ctx, target, opened.Previous, by(in), err.Error())).Error(), err)
	} else if err != nil {
		return opened, err
	}
	if opened.Previous == release.Version {
		opened.Previous = "" // a retry of a rollout whose candidate has all traffic, because nothing served before
	}
	opened.Version, opened.Revision = release.Version, doc.Revision
	if opened.Previous == "" && release.Weight > 0 {
		return opened, nil // it serves already, so it was found fit before
	}
	if err = r.comparable(ctx, spec, opened, target); err == nil {
		err = r.probe(ctx, in, spec, opened, target)
	}
	if fault.TypeOf(err) == fault.User {
		return opened, fault.New(fault.User, errors.Join(err, r.withdraw(ctx, target, opened.Previous, by(in), err.Error())).Error(), err)
	}
	return opened, err
}

// warmUpOf returns the rows with which the candidate is warmed up when it is loaded; nil for made-up ones. It reads them once here; a
// gateway that cannot read them does without.
func (r *Rollouts) warmUpOf(ctx context.Context, sp spec.Rollout) (*routing.Rows, error) {
	key, dataset, split := "traffic", sp.Traffic.Replay, sp.Traffic.Split
	if sp.WarmUp != nil {
		key, dataset, split = "warm_up", sp.WarmUp.Dataset, sp.WarmUp.Split
	}
	if dataset.IsZero() {
		return nil, nil
	}
	from := routing.RowsOf(dataset, split)
	_, err := gateway.WarmUpRows(ctx, r.Store, *from)
	if _, ok := errors.AsType[*answer.DataError](err); ok {
		return nil, fault.New(fault.User, key+": "+err.Error(), nil)
	} else if err != nil {
		return nil, activities.Typed(ctx, fmt.Errorf("%s: %w", key, err))
	}
	return from, nil
}

// refuseSecond rejects a rollout if the target has the candidate of another one that the workflow ID does not exclude: a rollout of another
// namespace, or one whose workflow was terminated.
func refuseSecond(doc routing.Document, in record.StepInput) error {
	going, ok := doc.Release(doc.Candidate)
	if !ok || going.Run == in.Run && going.Step == in.Step {
		return nil
	}
	return fault.Errorf(fault.Invalid, "target %s: the rollout of release %s by %s/%s has not ended\nhelp: wait for it, or end it with `sluice rollout abort %[1]s`",
		doc.Target, going.Version, going.Run, going.Step)
}

// refuseTakenBack refuses, in a run that a trigger started, to release a model again that a person has taken back: nobody asked for it.
func (r *Rollouts) refuseTakenBack(ctx context.Context, in record.StepInput, sp spec.Rollout) error {
	run, err := record.LoadRoot(ctx, r.Store, in.Run)
	if errors.Is(err, store.ErrNotFound) || err == nil && run.Trigger.Name == "" {
		return nil
	} else if err != nil {
		return err
	}
	taken, ok, err := routing.Refused(ctx, r.Store, sp.Target, sp.Model)
	if !ok || err != nil {
		return err
	}
	why := ""
	if taken.Reason != "" {
		why = " (" + taken.Reason + ")"
	}
	return fault.Errorf(fault.Gate, "not released: %s took this model back from target %s on %s, as release %s%s\n"+
		"help: a run that a trigger starts does not release it again; `sluice rerun %s` does",
		taken.By, sp.Target, taken.At.Format("2006-01-02 15:04:05 MST"), taken.Version, why, run.Run)
}

// withdraw gives all traffic to the previous release and unloads the others.
func (r *Rollouts) withdraw(ctx context.Context, target *gateway.Target, previous, by, reason string) error {
	split := gateway.Split{Weights: map[string]float64{}, By: by, Reason: reason}
	if previous != "" {
		split.Weights[previous] = 1
	}
	return r.force(ctx, target, split)
}

// force sets the traffic at any revision: the rollout holds the target's lock, so only a late change of its own can have moved the
// revision.
func (r *Rollouts) force(ctx context.Context, target *gateway.Target, split gateway.Split) error {
	for {
		doc, err := target.Current(ctx)
		if err != nil {
			return err
		}
		if _, err = target.SetTraffic(ctx, doc.Revision, split); !errors.Is(err, routing.ErrConflict) {
			return err
		}
	}
}

// Traffic gives the candidate the traffic of a stage.
func (r *Rollouts) Traffic(ctx context.Context, in contract.RolloutTraffic) (contract.RolloutTrafficSet, error) {
	heartbeat.Show(ctx, func() any { return protocol.Progress{Text: "moving traffic", Share: -1} })
	target, rolled, err := r.target(ctx, in.Step)
	if err != nil {
		return contract.RolloutTrafficSet{}, err
	}
	doc, err := target.Current(ctx)
	if err != nil {
		return contract.RolloutTrafficSet{}, err
	}
	doc, err = target.SetTraffic(ctx, in.Revision, splitOf(doc, in, rolled))
	if errors.Is(err, routing.ErrConflict) {
		return contract.RolloutTrafficSet{}, fault.New(fault.Invalid, err.Error(), err)
	}
	return contract.RolloutTrafficSet{Revision: doc.Revision}, err
}

// splitOf is the split of a stage.
func splitOf(doc routing.Document, in contract.RolloutTraffic, rolled spec.Rollout) gateway.Split {
	split := gateway.Split{Weights: map[string]float64{in.Version: float64(in.Weight)}, Candidate: in.Version, By: by(in.Step)}
	if stable := stableOf(doc, in.Version); stable != "" {
		split.Weights[stable], split.Stable = 1-float64(in.Weight), stable
	}
	if in.Shadow > 0 {
		split.Shadow = &routing.Shadow{Version: in.Version, Share: float64(in.Shadow)}
	}
	if sticky := rolled.Sticky; sticky != (spec.Sticky{}) {
		split.Sticky = &routing.Sticky{Header: sticky.Header, Field: sticky.Field}
	}
	return split
}

// stableOf returns the version next to the candidate that serves, or that served before the candidate got all traffic.
func stableOf(doc routing.Document, candidate string) string {
	best := routing.Release{Weight: -1}
	for _, r := range doc.Releases {
		if r.Version != candidate && r.Weight > best.Weight {
			best = r
		}
	}
	return best.Version
}

// by is the author that a revision of the routing document names.
func by(in record.StepInput) string { return in.Run + "/" + in.Step }

// Settle ends a rollout. It moves the traffic first and writes the record afterwards, because users depend on the traffic.
func (r *Rollouts) Settle(ctx context.Context, in contract.RolloutSettle) (settled contract.RolloutSettled, err error) {
	heartbeat.Show(ctx, func() any { return protocol.Progress{Text: "settling", Share: -1} })
	if in.Opened.Version == "" {
		return settled, r.unload(ctx, in)
	}
	target, spec, err := r.target(ctx, in.Step)
	if err != nil && !in.Promote && spec.Target != "" { // the way back needs the store only, and not that this worker can serve the target
		target, err = gateway.NewTarget(r.Store, spec.Target, "", ""), nil
	}
	if err != nil {
		return settled, err
	}
	outcome := routing.Outcome{
		Target: spec.Target, Version: in.Opened.Version, Previous: in.Opened.Previous, Run: in.Step.Run, Step: in.Step.Step,
		Decision: routing.RolledBack, Reason: in.Reason, At: time.Now().UTC(), By: in.By,
		Synthetic: !spec.Traffic.Replay.IsZero(),
	}
	who := cmp.Or(in.By, by(in.Step))
	if in.Promote {
		outcome.Decision = routing.Promoted
		split := gateway.Split{Weights: map[string]float64{in.Opened.Version: 1}, By: who, Reason: cmp.Or(in.Reason, "promoted")}
		if in.Opened.Previous != "" {
			split.Weights[in.Opened.Previous] = 0 // stays loaded: the way back is one document
		}
		settled.URL, err = r.promote(ctx, in.Step, spec, target, split)
	} else {
		err = r.withdraw(ctx, target, in.Opened.Previous, who, in.Reason)
	}
	if err != nil {
		return settled, err
	}
	return settled, routing.PutOutcome(ctx, r.Store, outcome)
}

// unload removes a candidate that was not loaded from its target's document, if it is there and has no traffic. It does not need the
// gateway, which may be what failed.
func (r *Rollouts) unload(ctx context.Context, in contract.RolloutSettle) error {
	spec, err := record.LoadSpec[spec.Rollout](ctx, r.Store, in.Step)
	if err != nil {
		return err
	}
	for {
		doc, err := routing.Current(ctx, r.Store, spec.Target)
		if err != nil {
			return err
		}
		i := slices.IndexFunc(doc.Releases, func(c routing.Release) bool { return c.Run == in.Step.Run && c.Step == in.Step.Step && c.Weight == 0 })
		if i < 0 {
			return nil
		}
		candidate := doc.Releases[i]
		doc.Releases = slices.Delete(doc.Releases, i, i+1)
		if doc.Shadow != nil && doc.Shadow.Version == candidate.Version {
			doc.Shadow = nil
		}
		doc.Candidate, doc.Stable = "", ""
		doc.By, doc.Reason = cmp.Or(in.By, by(in.Step)), in.Reason
		if _, err := routing.Set(ctx, r.Store, doc.Revision, doc); errors.Is(err, routing.ErrConflict) {
			continue
		} else if err != nil {
			return err
		}
		return routing.PutOutcome(ctx, r.Store, routing.Outcome{
			Target: spec.Target, Version: candidate.Version, Run: in.Step.Run, Step: in.Step.Step,
			Decision: routing.RolledBack, Reason: in.Reason, At: time.Now().UTC(), By: in.By,
		})
	}
}
