package activities

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"go.temporal.io/sdk/activity"

	"github.com/sluiceml/sluice/activities/contract"
	"github.com/sluiceml/sluice/dsl"
	"github.com/sluiceml/sluice/store"
	"github.com/sluiceml/sluice/training"
	"github.com/sluiceml/sluice/training/checkpoint"
)

// Trainings holds the worker's activities of the train kind.
type Trainings struct {
	Store *store.Store
	// Engine knows the environments of submissions.
	Engine *Engine
	// LogDir is where the agents of pools on this machine keep logs and metrics.
	LogDir string
	// Pool opens a pool as its environment describes it. It returns the same pool for the same name and spec.
	Pool func(ctx context.Context, name string, spec dsl.Pool) (training.Pool, error)
}

// Plan says what gang the step needs.
func (t *Trainings) Plan(ctx context.Context, in contract.PlanInput) (contract.TrainPlan, error) {
	var spec dsl.Train
	if err := LoadSpec(ctx, t.Store, in.StepInput, &spec); err != nil {
		return contract.TrainPlan{}, err
	}
	sub, err := t.Engine.submission(ctx, in.Submission)
	if err != nil {
		return contract.TrainPlan{}, err
	}
	name, pool, err := poolOf(sub.program.Environment(), spec.Pool)
	if err != nil {
		return contract.TrainPlan{}, err
	}
	plan := contract.TrainPlan{
		Pool: name, MinNodes: max(1, spec.Nodes.Min), MaxNodes: spec.Nodes.Max, Capacity: pool.Sells()[0],
		Resources: spec.Resources, Keep: spec.Checkpoint.Keep, Image: cmp.Or(spec.Runtime.Image, pool.Runtime.Image),
	}
	plan.MaxNodes = max(plan.MinNodes, plan.MaxNodes)
	plan.USDPerHour = pool.USDPerHour.Of(plan.Capacity)
	return plan, nil
}

// poolOf is the pool that a step means: the first that it names, or the environment's only one.
func poolOf(env *dsl.Environment, names []string) (string, dsl.Pool, error) {
	if len(names) == 0 && len(env.Pools) == 1 {
		names = slices.Collect(maps.Keys(env.Pools))
	}
	if len(names) == 0 {
		return "", dsl.Pool{}, contract.Error(contract.ErrInvalid, "the step names no pool", nil)
	}
	pool, ok := env.Pools[names[0]]
	if !ok {
		return "", dsl.Pool{}, contract.Error(contract.ErrInvalid, fmt.Sprintf("the environment has no pool %q", names[0]), nil)
	}
	return names[0], pool, nil
}

func (t *Trainings) pool(ctx context.Context, submission, name string) (training.Pool, error) {
	sub, err := t.Engine.submission(ctx, submission)
	if err != nil {
		return nil, err
	}
	return t.Pool(ctx, name, sub.program.Environment().Pools[name])
}

// Seal opens a generation and says how far the one before it came.
func (t *Trainings) Seal(ctx context.Context, in contract.SealInput) (contract.SealOutput, error) {
	defer Heartbeat(ctx, func() any { return contract.Progress{Text: "sealing", Share: -1} })()
	seal, err := checkpoint.MakeSeal(ctx, t.Store, in.Key, in.Unusable)
	if err != nil || in.Generation == 1 {
		return contract.SealOutput{Seal: seal}, err
	}
	before := in.Key
	before.Generation--
	reached, err := t.reached(ctx, before)
	return contract.SealOutput{Seal: seal, Reached: reached}, err
}

// reached is the last step that a generation is known to have made: by its progress record, which is a second old when a node is
// lost, and by its metrics file, which is exact, where this worker can see that.
func (t *Trainings) reached(ctx context.Context, k training.Key) (int64, error) {
	progress, err := checkpoint.GetProgress(ctx, t.Store, k)
	if err != nil {
		return 0, err
	}
	step := progress.Step
	f, err := os.Open(filepath.Join(t.LogDir, training.MetricsPath(k, 0)))
	if errors.Is(err, fs.ErrNotExist) {
		return step, nil
	} else if err != nil {
		return 0, fmt.Errorf("metrics of generation %d: %w", k.Generation, err)
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		var point curvePoint
		if json.Unmarshal(lines.Bytes(), &point) == nil {
			step = max(step, point.Step)
		}
	}
	return step, nil
}

// Acquire gets a gang of a pool.
func (t *Trainings) Acquire(ctx context.Context, in contract.AcquireInput) (training.Gang, error) {
	defer Heartbeat(ctx, func() any { return contract.Progress{Text: "acquiring nodes", Share: -1} })()
	pool, err := t.pool(ctx, in.Submission, in.Pool)
	if err != nil {
		return training.Gang{}, err
	}
	gang, err := pool.Acquire(ctx, in.Request)
	switch {
	case errors.Is(err, training.ErrTooLarge), errors.Is(err, training.ErrRefused), errors.Is(err, training.ErrNoAgent):
		return gang, contract.Error(contract.ErrInvalid, "pool "+in.Pool+": "+err.Error(), err)
	case errors.Is(err, training.ErrNoCapacity):
		return gang, contract.Error(contract.ErrPreempted, "pool "+in.Pool+": "+err.Error(), err)
	case err != nil:
		return gang, contract.Error(contract.ErrInfrastructure, "pool "+in.Pool+": "+err.Error(), err)
	}
	return gang, nil
}

// Watch returns when a node of a gang is gone.
func (t *Trainings) Watch(ctx context.Context, in contract.GangInput) (training.Loss, error) {
	defer Heartbeat(ctx, func() any { return contract.Progress{Text: "watching the nodes", Share: -1} })()
	defer t.prune(ctx, in.Key, in.Keep)()
	pool, err := t.pool(ctx, in.Submission, in.Pool)
	if err != nil {
		return training.Loss{}, err
	}
	loss, err := pool.Watch(ctx, in.Key)
	if err == nil {
		activity.GetLogger(ctx).Info("nodes lost", "gang", in.Key.String(), "nodes", loss.Nodes, "reason", loss.Reason)
	}
	return loss, err
}

// Release gives a gang back.
func (t *Trainings) Release(ctx context.Context, in contract.GangInput) error {
	defer Heartbeat(ctx, func() any { return contract.Progress{Text: "releasing nodes", Share: -1} })()
	pool, err := t.pool(ctx, in.Submission, in.Pool)
	if err != nil {
		return err
	}
	return pool.Release(ctx, in.Key)
}
