package workflows

import (
	"encoding/json"
	"fmt"
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/sluiceml/sluice/activities/contract"
	"github.com/sluiceml/sluice/dsl"
)

const (
	// keptLooks bounds the looks of a stage that its result keeps: the newest.
	keptLooks = 200
	// targetTimeout bounds one order to a serving target, loading a model included, for which a cluster may have to start machines.
	targetTimeout = 20 * time.Minute
)

// Rollout moves a target's traffic to a model stage by stage. Its workflow ID is the target's, which is the lock: there is one at a
// time. Whatever goes wrong, a cancel included, traffic goes back to what served before as the first thing done about it.
func Rollout(ctx workflow.Context, in contract.StepInput) (contract.StepOutput, error) {
	r := &rollout{in: in, state: contract.RolloutState{Phase: "loading"}}
	if err := json.Unmarshal(in.Spec, &r.spec); err != nil {
		return contract.StepOutput{}, contract.Error(contract.ErrInvalid, "the rollout's spec cannot be read", err)
	}
	r.state.Stages = len(r.spec.Stages)
	err := workflow.SetQueryHandler(ctx, contract.StateQuery, func() (contract.RolloutState, error) { return r.state, nil })
	if err != nil {
		return contract.StepOutput{}, err
	}
	if err := r.order(ctx, contract.RolloutOpenActivity, "load "+r.spec.Target, in, &r.opened); err != nil {
		return contract.StepOutput{}, err
	}
	r.revision, r.state.Version = r.opened.Revision, r.opened.Version
	reason, failed := r.stages(ctx)
	return r.settle(ctx, reason, failed)
}

// rollout is the state of one rollout workflow.
type rollout struct {
	in       contract.StepInput
	spec     dsl.Rollout
	opened   contract.RolloutOpened
	revision int64
	judge    json.RawMessage
	results  []dsl.StageResult
	state    contract.RolloutState
}

// stages goes through the stages while replayed traffic flows. It returns why the rollout must be taken back; failed is set when
// that is an error of the machinery and not a judgement.
func (r *rollout) stages(ctx workflow.Context) (reason string, failed error) {
	replaying, stop := workflow.WithCancel(ctx)
	defer stop()
	replay := r.replay(replaying)
	for i, stage := range r.spec.Stages {
		r.state.Phase, r.state.Stage, r.state.Shadow, r.state.Weight = "stage", i+1, stage.Shadow, stage.Weight
		r.show(ctx)
		tell(ctx, contract.Note{Step: r.in.Step, Text: fmt.Sprintf("version %s, stage %s of %d", r.opened.Version, describe(i, stage), len(r.spec.Stages))})
		if err := r.traffic(ctx, stage); err != nil {
			return "traffic could not be moved: " + contract.Message(err), err
		}
		result, err := r.watch(ctx, i, stage, replay)
		r.results = append(r.results, result)
		if err != nil {
			return "stage " + describe(i, stage) + ": " + contract.Message(err), err
		}
		if result.Decision != decisionPass {
			return "stage " + describe(i, stage) + ": " + result.Reason, nil
		}
	}
	return "", nil
}

// What a look may decide.
const (
	decisionPass  = "pass"
	decisionAbort = "abort"
)

func describe(i int, s dsl.Stage) string {
	if s.Shadow > 0 {
		return fmt.Sprintf("%d (shadow %g%%)", i+1, 100*float64(s.Shadow))
	}
	return fmt.Sprintf("%d (%g%%)", i+1, 100*float64(s.Weight))
}

// replay starts the replayed traffic, which ends when ctx is cancelled. Without any the future never becomes ready.
func (r *rollout) replay(ctx workflow.Context) workflow.Future {
	if r.spec.Traffic.Replay.IsZero() {
		never, _ := workflow.NewFuture(ctx)
		return never
	}
	ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		StartToCloseTimeout: defaultTimeout,
		HeartbeatTimeout:    heartbeatTimeout,
		RetryPolicy: &temporal.RetryPolicy{
			MaximumInterval: 10 * time.Second, MaximumAttempts: lostWorkers,
			NonRetryableErrorTypes: []string{contract.ErrInvalid, contract.ErrUser},
		},
		Summary: "replay traffic to " + r.spec.Target,
	})
	in := contract.RolloutReplay{Step: r.in, Traffic: r.spec.Traffic}
	return workflow.ExecuteActivity(ctx, contract.RolloutReplayActivity, in)
}

// traffic gives the candidate the share of a stage.
func (r *rollout) traffic(ctx workflow.Context, s dsl.Stage) error {
	in := contract.RolloutTraffic{
		Step: r.in, Version: r.opened.Version, Revision: r.revision, Weight: s.Weight, Shadow: s.Shadow,
	}
	if r.opened.Previous == "" {
		in.Weight, in.Shadow = 1, 0 // nothing else could answer
	}
	var set contract.RolloutTrafficSet
	summary := fmt.Sprintf("%s: %g%% to version %s", r.spec.Target, 100*float64(in.Weight), in.Version)
	if in.Shadow > 0 {
		summary = fmt.Sprintf("%s: shadow %g%% to version %s", r.spec.Target, 100*float64(in.Shadow), in.Version)
	}
	err := r.order(ctx, contract.RolloutTrafficActivity, summary, in, &set)
	if err == nil {
		r.revision = set.Revision
	}
	return err
}

// watch looks at a stage until it passes or must be aborted. One activity looks many times, so that a stage of hours stays a short
// history.
func (r *rollout) watch(ctx workflow.Context, i int, stage dsl.Stage, replay workflow.Future) (dsl.StageResult, error) {
	result := dsl.StageResult{Index: i, Shadow: stage.Shadow, Weight: stage.Weight}
	began := workflow.Now(ctx)
	for begins := true; ; begins = false {
		in := contract.RolloutLook{
			Step: r.in, Version: r.opened.Version, Previous: r.opened.Previous, Stage: stage, Tests: r.spec.Tests,
			Stages: len(r.spec.Stages), Revision: r.revision, Elapsed: workflow.Now(ctx).Sub(began).Seconds(), State: r.judge, Begins: begins,
		}
		var out contract.RolloutLooked
		if err := r.order(ctx, contract.RolloutLookActivity, "judge stage "+describe(i, stage), in, &out); err != nil {
			return result, err
		}
		r.judge = out.State
		if n := len(out.Looks); n > 0 {
			last := out.Looks[n-1]
			result.Looks = append(result.Looks, out.Looks...)
			result.Looks = result.Looks[max(0, len(result.Looks)-keptLooks):]
			result.Seconds, result.Decision, result.Reason = last.At, last.Decision, last.Reason
			r.state.Look = &last
			r.show(ctx)
		}
		switch {
		case result.Decision == decisionPass || result.Decision == decisionAbort:
			return result, nil
		case replay.IsReady():
			return result, replayEnded(ctx, replay)
		}
	}
}

// replayEnded says why the replayed traffic is over before its time.
func replayEnded(ctx workflow.Context, replay workflow.Future) error {
	if err := replay.Get(ctx, nil); err != nil {
		return err
	}
	return contract.Error(contract.ErrInfrastructure, "the replayed traffic ended before the rollout did", nil)
}

// settle promotes, or takes the rollout back: the traffic first, on a context that a cancel does not reach.
func (r *rollout) settle(ctx workflow.Context, reason string, failed error) (contract.StepOutput, error) {
	promote := reason == "" && failed == nil
	r.state.Phase = "rolling back"
	if promote {
		r.state.Phase = "promoting"
	}
	detached, _ := workflow.NewDisconnectedContext(ctx)
	in := contract.RolloutSettle{Step: r.in, Opened: r.opened, Promote: promote, Reason: reason}
	if err := r.order(detached, contract.RolloutSettleActivity, r.state.Phase, in, nil); err != nil {
		return contract.StepOutput{}, err
	}
	r.state.Phase = "done"
	out := dsl.RolloutOutput{
		Target: r.spec.Target, Version: r.opened.Version, Previous: r.opened.Previous, Decision: "promoted",
		Reason: reason, Stages: r.results, URL: r.opened.URL,
	}
	if !promote {
		out.Decision = "rolled_back"
	}
	r.show(ctx)
	raw, err := json.Marshal(out)
	if err != nil {
		return contract.StepOutput{}, fmt.Errorf("encode the rollout's outputs: %w", err)
	}
	switch {
	case promote:
		return contract.StepOutput{Outputs: raw}, nil
	case failed != nil:
		return contract.StepOutput{}, failed
	default:
		return contract.StepOutput{}, contract.ErrorWithOutputs(contract.ErrGate, "rolled back: "+reason, raw)
	}
}

// order runs one short activity at the target.
func (r *rollout) order(ctx workflow.Context, name, summary string, in, out any) error {
	ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		StartToCloseTimeout: targetTimeout,
		HeartbeatTimeout:    heartbeatTimeout,
		WaitForCancellation: true,
		RetryPolicy: &temporal.RetryPolicy{
			InitialInterval: 200 * time.Millisecond, MaximumInterval: 10 * time.Second, MaximumAttempts: lostWorkers,
			NonRetryableErrorTypes: []string{contract.ErrInvalid, contract.ErrUser, contract.ErrGate},
		},
		Summary: summary,
	})
	return workflow.ExecuteActivity(ctx, name, in).Get(ctx, out)
}

// show writes the rollout's details for Temporal's UI.
func (r *rollout) show(ctx workflow.Context) {
	s := r.state
	text := fmt.Sprintf("**%s** version %s: %s, stage %d of %d\n", r.spec.Target, s.Version, s.Phase, s.Stage, s.Stages)
	if l := s.Look; l != nil {
		side := func(name string, c dsl.SideCounts) string {
			return row(name, c.Requests, c.Errors, fmt.Sprintf("%.2f", c.P99MS))
		}
		text += "\n" + heads("", "answers", "errors", "p99 ms") + side("candidate", l.Candidate) + side("stable", l.Stable) +
			fmt.Sprintf("\ne-value %.3g: %s %s\n", l.EValue, l.Decision, l.Reason)
	}
	workflow.SetCurrentDetails(ctx, text)
}
