package rollout

import (
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/sluiceml/sluice/activities/contract"
	"github.com/sluiceml/sluice/dsl/expr"
	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/heartbeat"
	"github.com/sluiceml/sluice/internal/telemetry"
	"github.com/sluiceml/sluice/serving/gateway"
	"github.com/sluiceml/sluice/serving/rollout"
)

// lookEvery is the interval between two looks at a stage. The tests remain valid however often they are evaluated.
const lookEvery = time.Second

// Look evaluates a stage once a second until a look decides or its time has passed. It reads cumulative counts, so an activity that is lost
// and repeated decides the same.
func (r *Rollouts) Look(ctx context.Context, in contract.RolloutLook) (contract.RolloutLooked, error) {
	var newest atomic.Pointer[contract.RolloutProgress]
	newest.Store(&contract.RolloutProgress{Text: "judging", Share: -1})
	heartbeat.Show(ctx, func() any { return *newest.Load() })
	target, rolled, err := r.target(ctx, in.Step)
	if err != nil {
		return contract.RolloutLooked{}, err
	}
	var state rollout.State
	if len(in.State) > 0 {
		if err := json.Unmarshal(in.State, &state); err != nil {
			return contract.RolloutLooked{}, fmt.Errorf("the state of the evaluation: %w", err)
		}
	}
	if in.Begins {
		state = state.NextStage()
	}
	base, err := r.prometheus(ctx, in.Step)
	if err != nil {
		return contract.RolloutLooked{}, err
	}
	looks, state, err := r.looks(ctx, target, rolled, base, in, state, func(look spec.Look) {
		newest.Store(&contract.RolloutProgress{Text: "judging", Share: -1, Look: &look, At: time.Now().UTC()})
	})
	if err != nil {
		return contract.RolloutLooked{}, heartbeat.Ended(ctx, err, *newest.Load()) // nothing else would know the newest look
	}
	raw, err := json.Marshal(state)
	return contract.RolloutLooked{Looks: looks, State: raw}, err
}

// looks evaluates until a look decides or time is up, and shows each look. prometheus is the server for the stage's queries.
func (r *Rollouts) looks(
	ctx context.Context, target *gateway.Target, rolled spec.Rollout, prometheus string, in contract.RolloutLook, state rollout.State, show func(spec.Look),
) ([]spec.Look, rollout.State, error) {
	stage := stageOf(in, rolled)
	asks := newStageQueries(prometheus, rolled.Target, stage)
	began := time.Now()
	tick := time.Tick(lookEvery)
	evidence := r.Gauges.Hold()
	defer evidence.Release()
	evidence.Set(evidenceOf(rolled.Target, stage, state))
	var looks []spec.Look
	for {
		select {
		case <-ctx.Done():
			return nil, state, ctx.Err()
		case <-tick:
		}
		now, err := target.Stats(ctx)
		if err != nil {
			return nil, state, err
		}
		stage.Elapsed = time.Duration(in.Elapsed*float64(time.Second)) + time.Since(began)
		var look spec.Look
		state, look, _ = rollout.EvaluateStage(stage, state, now, stageChecks(ctx, stage.Spec.Checks, asks))
		look.Synthetic = !rolled.Traffic.Replay.IsZero()
		looks = append(looks, look)
		show(look)
		evidence.Set(evidenceOf(rolled.Target, stage, state))
		if look.Decision != rollout.Hold || time.Since(began) >= in.For {
			return looks, state, nil
		}
	}
}

// stageOf is the stage to look at.
func stageOf(in contract.RolloutLook, rolled spec.Rollout) rollout.Stage {
	stage := rollout.Stage{
		Spec: in.Stage, Tests: in.Tests, Of: in.Stages, Candidate: in.Version, Stable: in.Previous, Revision: in.Revision,
		Paused: in.Paused, Keyed: rolled.Sticky != (spec.Sticky{}),
	}
	if stage.Stable == "" {
		stage.Spec.Shadow, stage.Spec.Weight = 0, 1 // the candidate answers everything, for nothing else can
		leaveOutComparisons(&stage.Spec)
	}
	return stage
}

// evidenceOf returns the evidence of the looks so far, or nothing if the candidate has nothing to be compared with.
func evidenceOf(target string, stage rollout.Stage, state rollout.State) []telemetry.Sample {
	if stage.Stable == "" {
		return nil
	}
	var samples []telemetry.Sample
	add := func(test string, value, alpha float64) {
		labels := []string{target, stage.Candidate, test}
		samples = append(samples, telemetry.Sample{Metric: telemetry.EValue, Value: value, Labels: labels},
			telemetry.Sample{Metric: telemetry.EValueLimit, Value: 1 / alpha, Labels: labels})
	}
	add(telemetry.TestErrors, state.Errors.Value(), stage.Alpha())
	if stage.HasLoss() {
		add(telemetry.TestLoss, state.Loss.Value(), stage.LossAlpha())
	}
	return samples
}

// stageChecks evaluates a stage's checks on the values of a look, once all its queries have an answer.
func stageChecks(ctx context.Context, exprs []spec.Expr, asks *stageQueries) rollout.Checks {
	return func(candidate, stable spec.SideCounts, delta spec.Delta) []spec.Check {
		checks, answered := asks.evaluate(ctx)
		if !answered {
			return checks
		}
		for _, e := range exprs {
			c, err := expr.EvalStageCheck(e, candidate, stable, delta)
			checks = append(checks, checkOf(string(e), c, err))
		}
		return checks
	}
}

// checkOf returns an evaluated check, or one that could not be evaluated.
func checkOf(what string, made spec.Check, err error) spec.Check {
	if err != nil {
		return spec.Check{Expression: what, Verdict: spec.VerdictError, Error: err.Error()}
	}
	return made
}

// otherRelease is what there is only beside another release, in a check: its names are the only texts of one.
var otherRelease = regexp.MustCompile(`\b(stable|delta)\b`)

// leaveOutComparisons removes the comparisons with a serving release from a stage if there is none, so that the same step can make the
// first release and all later ones.
func leaveOutComparisons(stage *spec.Stage) {
	stage.Checks = slices.DeleteFunc(slices.Clone(stage.Checks), func(e spec.Expr) bool { return otherRelease.MatchString(string(e)) })
	stage.Queries = slices.DeleteFunc(slices.Clone(stage.Queries), func(q spec.StageQuery) bool { return strings.Contains(q.Query, "$stable") })
}
