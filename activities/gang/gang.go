// Package gang has the side effects of a gang: a step that runs on the nodes of a pool.
package gang

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/sluiceml/sluice/activities/contract"
	"github.com/sluiceml/sluice/activities/engine"
	"github.com/sluiceml/sluice/dsl/deadline"
	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/fault"
	"github.com/sluiceml/sluice/internal/heartbeat"
	"github.com/sluiceml/sluice/internal/metrics"
	"github.com/sluiceml/sluice/internal/telemetry/prom"
	"github.com/sluiceml/sluice/store"
	"github.com/sluiceml/sluice/store/record"
	"github.com/sluiceml/sluice/training"
	"github.com/sluiceml/sluice/training/checkpoint"
	"github.com/sluiceml/sluice/training/protocol"
)

// Trainings has the worker's activities of the kind `train`.
type Trainings struct {
	Store *store.Store
	// Engine loads the environments of submissions.
	Engine *engine.Engine
	// LogDir is the folder in which the agents of pools on this machine keep logs and metrics.
	LogDir string
	// Gauges receive measurements of gangs while they are watched, and Progress queries the nodes of a training for them. Gauges may be
	// nil.
	Gauges   *prom.Gauges
	Progress func(ctx context.Context, workflow string) ([]protocol.TrainProgress, error)
	// Pool opens a pool of an environment. It returns the same pool for the same name and spec.
	Pool func(ctx context.Context, name string, env *spec.Environment) (training.Pool, error)
}

// Plan returns the gang that the step needs, the offers for it, and its deadline.
func (t *Trainings) Plan(ctx context.Context, in contract.PlanInput) (contract.TrainPlan, error) {
	sp, err := record.LoadTraining(ctx, t.Store, in.StepInput)
	if err != nil {
		return contract.TrainPlan{}, err
	}
	sub, err := t.Engine.Submission(ctx, in.Submission)
	if err != nil {
		return contract.TrainPlan{}, err
	}
	plan := contract.TrainPlan{
		MinNodes: max(1, sp.Nodes.Min), MaxNodes: sp.Nodes.Max, Resources: sp.Resources, TotalSteps: sp.TotalSteps,
		Keep: sp.Checkpoint.Keep,
	}
	plan.MaxNodes = max(plan.MinNodes, plan.MaxNodes)
	if plan.ResumeFrom, err = t.resumeFrom(ctx, sp, plan); err != nil {
		return plan, err
	}
	env := sub.Program.Environment()
	if plan.Offers, err = offersOf(env, sp); err != nil {
		return plan, err
	}
	if sp.Deadline != nil {
		plan.StopOnMiss, plan.Work = sp.Deadline.OnMiss == spec.OnMissStop, time.Duration(sp.Deadline.Work)
		if plan.Deadline, err = deadline.After(sp.Deadline, in.BeganAt); err == nil && !in.Continues {
			err = deadline.Unkept(sp.Deadline, in.BeganAt, plan.Deadline, deadline.StartWithin(&sp, env.Pools), in.Resumes)
		}
		if err != nil {
			return plan, fault.New(fault.Invalid, err.Error(), err)
		}
	}
	return plan, nil
}

// offersOf lists the offers for a step: the cheapest first if every price is known, else in the order of the pools, with spot before
// on-demand in each.
func offersOf(env *spec.Environment, sp spec.Train) ([]contract.Offer, error) {
	names := sp.Pool
	if len(names) == 0 && len(env.Pools) == 1 {
		names = slices.Collect(maps.Keys(env.Pools))
	}
	var offers []contract.Offer
	priced := true
	for _, name := range names {
		pool, ok := env.Pools[name]
		if !ok {
			return nil, fault.Errorf(fault.Invalid, "the environment has no pool %q", name)
		}
		for _, capacity := range []string{spec.CapacitySpot, spec.CapacityOnDemand} {
			if !slices.Contains(pool.Sells(), capacity) || !sp.Buys(capacity) {
				continue
			}
			o := offerOf(env, name, capacity)
			priced = priced && o.USDPerHour > 0
			o.Image, o.RetryFor = cmp.Or(sp.Runtime.Image, pool.Runtime.Image), time.Duration(pool.RetryFor)
			o.StartWithin = pool.StartWithin()
			offers = append(offers, o)
		}
	}
	if len(offers) == 0 {
		return nil, fault.New(fault.Invalid, "no pool of the step offers a capacity type that the step may use", nil)
	}
	if priced {
		slices.SortStableFunc(offers, func(a, b contract.Offer) int { return cmp.Compare(a.USDPerHour, b.USDPerHour) })
	}
	return offers, nil
}

// offerOf is a capacity of a pool at the price that the environment says.
func offerOf(env *spec.Environment, name, capacity string) contract.Offer {
	pool := env.Pools[name]
	price := pool.USDPerHour.Of(capacity)
	return contract.Offer{Pool: name, Capacity: capacity, USDPerHour: price, PriceUnknown: price == 0 && pool.Local == nil} // this machine is paid for
}

func (t *Trainings) pool(ctx context.Context, submission, name string) (training.Pool, error) {
	sub, err := t.Engine.Submission(ctx, submission)
	if err != nil {
		return nil, err
	}
	return t.Pool(ctx, name, sub.Program.Environment())
}

// Seal starts a generation and returns how far the previous one came.
func (t *Trainings) Seal(ctx context.Context, in contract.SealInput) (contract.SealOutput, error) {
	heartbeat.Show(ctx, func() any { return protocol.Progress{Text: "sealing", Share: -1} })
	seal, err := checkpoint.MakeSeal(ctx, t.Store, in.Key, checkpoint.Origin{Run: in.ResumeRun, From: in.ResumeFrom}, in.Unusable)
	if errors.Is(err, checkpoint.ErrDamaged) {
		return contract.SealOutput{}, fault.New(fault.Invalid, "`resume_from`: "+err.Error()+": name another, which `sluice checkpoint ls` lists", err)
	}
	if err != nil || in.Generation == 1 {
		return contract.SealOutput{Seal: seal}, err
	}
	before := in.Key
	before.Generation--
	out := contract.SealOutput{Seal: seal}
	progress, err := checkpoint.GetProgress(ctx, t.Store, before)
	if err != nil {
		return out, err
	}
	out.Began = progress.Began
	out.Reached, out.Exact, err = t.reached(before, progress)
	return out, err
}

// reached returns the last step that a generation is known to have made: by its metrics file, which is exact, if this worker can read it,
// and by its progress record, which is a second old when a node is lost.
func (t *Trainings) reached(k training.Key, progress checkpoint.Progress) (step int64, exact bool, err error) {
	f, err := os.Open(filepath.Join(t.LogDir, training.MetricsPath(k, 0)))
	if errors.Is(err, fs.ErrNotExist) {
		return progress.Step, false, nil
	} else if err != nil {
		return 0, false, fmt.Errorf("metrics of generation %d: %w", k.Generation, err)
	}
	defer f.Close()
	for line, err := range metrics.Lines(f) {
		if err != nil {
			return 0, false, fmt.Errorf("metrics of generation %d: %w", k.Generation, err)
		}
		made, ok := line.Step()
		switch {
		case !ok || line.OfOtherRank():
		case progress.Began != nil && made <= *progress.Began: // what is before is of earlier generations
			step = made
		default:
			step = max(step, made)
		}
	}
	return max(step, progress.Step), true, nil
}
