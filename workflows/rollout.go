package workflows

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/sluiceml/sluice/activities/contract"
	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/fault"
	"github.com/sluiceml/sluice/store/record"
	"github.com/sluiceml/sluice/workflows/durable"
)

const (
	// keptLooks limits how many looks the results of all stages keep, and keptOfStage those of one stage; the newest are kept. All of them
	// are in one payload.
	keptLooks, keptOfStage = 20_000, 200
	// lookFor is how long one activity evaluates a stage, so that a stage of hours adds only a few events per minute to the history.
	lookFor = 30 * time.Second
	// targetTimeout limits one operation on a serving target, including the loading of a model, for which a cluster may have to start
	// machines.
	targetTimeout = 20 * time.Minute
	// replayLimit limits one attempt to replay traffic. The replay ends with the rollout, which takes as long as its stages.
	replayLimit = 365 * 24 * time.Hour
	// wayBackLimit limits all attempts to roll back together.
	wayBackLimit = 24 * time.Hour
)

// The phases of a rollout.
const (
	phaseLoading     = "loading"
	phaseStage       = "stage"
	phasePromoting   = "promoting"
	phaseRollingBack = "rolling back"
	phaseDone        = "done"
)

// Rollout moves a target's traffic to a model stage by stage. The workflow ID is derived from the target and serves as its lock, so a
// target has one rollout at a time. Whatever goes wrong, cancellation included, the first reaction is to return the traffic to the release
// that served before.
func Rollout(ctx workflow.Context, in contract.RolloutInput) (record.StepOutput, error) {
	r := &rollout{in: in.StepInput, at: contract.RolloutContinuation{State: contract.RolloutState{Phase: phaseLoading}}}
	var err error
	if r.spec, err = spec.Decode[spec.Rollout](in.Spec); err != nil {
		return record.StepOutput{}, err
	}
	r.at.State.Stages = len(r.spec.Stages)
	if in.Continuation != nil {
		r.at = *in.Continuation
	}
	r.at.State.Run, r.at.State.Step, r.at.State.Tests = r.in.Run, r.in.Step, &r.spec.Tests
	err = workflow.SetQueryHandler(ctx, contract.StateQuery, func() (contract.RolloutState, error) { return r.at.State, nil })
	if err != nil {
		return record.StepOutput{}, err
	}
	if err := r.listen(ctx); err != nil {
		return record.StepOutput{}, err
	}
	if in.Continuation == nil {
		if err := r.open(ctx); err != nil {
			return r.unopened(ctx, err)
		}
	}
	reason, failed := r.stages(ctx, in.Continuation != nil)
	if errors.Is(failed, durable.ErrLong) {
		return record.StepOutput{}, workflow.NewContinueAsNewError(ctx, contract.RolloutWorkflow, contract.RolloutInput{StepInput: r.in, Continuation: &r.at})
	}
	out, err := r.settle(ctx, reason, failed)
	return r.finish(ctx, out, err)
}

// finish ends a rollout, whatever came of it, once everybody who ordered its end has been answered.
func (r *rollout) finish(ctx workflow.Context, out record.StepOutput, err error) (record.StepOutput, error) {
	r.at.State.Phase, r.failed = phaseDone, err
	r.await(ctx, func() bool { return workflow.AllHandlersFinished(ctx) })
	return out, err
}

// rollout is the state of one rollout workflow.
type rollout struct {
	in   record.StepInput
	spec spec.Rollout
	// at is what the next history would begin with.
	at contract.RolloutContinuation
	// failed is what the rollout ended with.
	failed error
}

// open loads the candidate.
func (r *rollout) open(ctx workflow.Context) error {
	loading, stop := workflow.WithCancel(ctx)
	options := orderOptions("load " + r.spec.Target)
	opened := workflow.ExecuteActivity(workflow.WithActivityOptions(loading, options), contract.RolloutOpenActivity, r.in)
	r.await(ctx, func() bool { return opened.IsReady() || r.at.State.Ordered != nil })
	stop()
	if err := opened.Get(ctx, &r.at.Opened); err != nil {
		return err
	}
	r.at.Revision, r.at.State.Version, r.at.State.Previous = r.at.Opened.Revision, r.at.Opened.Version, r.at.Opened.Previous
	return nil
}

// unopened ends a rollout whose candidate was not loaded, and leaves nothing of it loaded.
func (r *rollout) unopened(ctx workflow.Context, failed error) (record.StepOutput, error) {
	if r.at.State.Ordered != nil {
		out, err := r.settle(ctx, r.ordered(), nil)
		return r.finish(ctx, out, err)
	}
	if err := r.end(ctx, false, "it could not be loaded: "+fault.Message(failed)); err != nil {
		failed = errors.Join(failed, err)
	}
	return r.finish(ctx, record.StepOutput{}, failed)
}

// stages executes the stages while traffic is replayed; if midway, it continues with the stage that an earlier history began. It returns
// the reason why the rollout must be rolled back; failed is set if the reason is an error and not a verdict, or is durable.ErrLong.
func (r *rollout) stages(ctx workflow.Context, midway bool) (reason string, failed error) {
	replaying, stop := workflow.WithCancel(ctx)
	defer stop()
	replay := r.replay(replaying)
	next := len(r.at.Results)
	if midway = midway && r.at.Results[next-1].Decision != decisionPass; midway {
		next--
	}
	for i := next; i < len(r.spec.Stages); i++ {
		stage := r.stage(i)
		if !midway {
			if err := r.awaitResume(ctx); err != nil {
				return "stage " + describe(i, stage) + ": " + fault.Message(err), err
			}
			if r.at.State.Ordered != nil {
				return r.ordered(), nil
			}
			if err := r.begin(ctx, i, stage); err != nil {
				return "traffic could not be moved: " + fault.Message(err), err
			}
		}
		midway = false
		err := r.watch(replaying, i, stage, replay) // below what is replayed: what is canceled side by side is canceled in no fixed order
		if err == nil && r.at.State.Ordered != nil {
			return r.ordered(), nil
		}
		if err == nil {
			result := r.at.Results[i]
			durable.Conclude(ctx, "stage "+describe(i, stage), result.Decision, result.Reason)
			if result.Decision != decisionPass {
				return "stage " + describe(i, stage) + ": " + result.Reason, nil
			}
			if i+1 < len(r.spec.Stages) && durable.IsLong(ctx) {
				err = durable.ErrLong
			}
		}
		if errors.Is(err, durable.ErrLong) {
			stop()
			err = r.halt(ctx, replay)
			if err == nil && r.at.State.Ordered != nil { // whoever ordered it waits for this history
				return r.ordered(), nil
			}
			if err == nil {
				return "", durable.ErrLong
			}
		}
		if err != nil {
			return "stage " + describe(i, stage) + ": " + fault.Message(err), err
		}
	}
	return "", nil
}

// stage is a stage as it is executed: while there is no other release, the candidate answers everything.
func (r *rollout) stage(i int) spec.Stage {
	stage := r.spec.Stages[i]
	if r.at.Opened.Previous == "" {
		stage.Weight, stage.Shadow = 1, 0
	}
	return stage
}

// begin begins a stage.
func (r *rollout) begin(ctx workflow.Context, i int, stage spec.Stage) error {
	s := &r.at.State
	s.Phase, s.Stage, s.Shadow, s.Weight, s.Asks, s.Look = phaseStage, i+1, stage.Shadow, stage.Weight, &stage, nil
	r.show(ctx)
	durable.Tell(ctx, contract.Note{
		Step: r.in.Step, Text: fmt.Sprintf("version %s, stage %s of %d", r.at.Opened.Version, describe(i, stage), len(r.spec.Stages)),
	})
	if err := r.traffic(ctx, stage); err != nil {
		return err
	}
	r.at.Results = append(r.at.Results, spec.StageResult{Index: i, Shadow: stage.Shadow, Weight: stage.Weight})
	r.at.Began, r.at.Held = workflow.Now(ctx), 0
	s.Began = r.at.Began
	return nil
}

// halt waits for the end of replayed traffic that has been stopped and will continue in the next history. It returns an error if there will
// be no next history because the rollout was canceled.
func (r *rollout) halt(ctx workflow.Context, replay workflow.Future) error {
	if r.replays() {
		var replayed contract.RolloutReplayed
		if lastWords(ctx, replay, &replayed) {
			r.at.Sent = replayed.Sent
		}
	}
	return ctx.Err()
}

// lastWords waits for the end of an activity that was stopped, and reads what it said then. It reports false if it said nothing.
func lastWords(ctx workflow.Context, activity workflow.Future, words any) bool {
	waiting, _ := workflow.NewDisconnectedContext(ctx)
	var stopped *temporal.CanceledError
	err := activity.Get(waiting, nil)
	return errors.As(err, &stopped) && stopped.HasDetails() && stopped.Details(words) == nil
}

// The possible decisions of a look.
const (
	decisionPass  = "pass"
	decisionAbort = "abort"
)

func describe(i int, s spec.Stage) string {
	if s.Shadow > 0 {
		return fmt.Sprintf("%d (shadow %g%%)", i+1, 100*float64(s.Shadow))
	}
	return fmt.Sprintf("%d (%g%%)", i+1, 100*float64(s.Weight))
}

// replays reports whether the rollout sends traffic itself.
func (r *rollout) replays() bool { return !r.spec.Traffic.Replay.IsZero() }

// replay starts the replayed traffic, which ends when ctx is canceled. If the rollout replays nothing, the future never becomes ready.
func (r *rollout) replay(ctx workflow.Context) workflow.Future {
	if !r.replays() {
		never, _ := workflow.NewFuture(ctx)
		return never
	}
	ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		StartToCloseTimeout: replayLimit,
		HeartbeatTimeout:    durable.HeartbeatTimeout,
		WaitForCancellation: true,
		RetryPolicy: &temporal.RetryPolicy{
			MaximumInterval: 10 * time.Second, MaximumAttempts: durable.LostWorkers,
			NonRetryableErrorTypes: []string{fault.Invalid, fault.User},
		},
		Summary: "replay traffic to " + r.spec.Target,
	})
	in := contract.RolloutReplay{Step: r.in, Traffic: r.spec.Traffic, Sent: r.at.Sent}
	return workflow.ExecuteActivity(ctx, contract.RolloutReplayActivity, in)
}

// traffic gives the candidate the share of a stage.
func (r *rollout) traffic(ctx workflow.Context, s spec.Stage) error {
	in := contract.RolloutTraffic{
		Step: r.in, Version: r.at.Opened.Version, Revision: r.at.Revision, Weight: s.Weight, Shadow: s.Shadow,
	}
	var set contract.RolloutTrafficSet
	summary := fmt.Sprintf("%s: %g%% to version %s", r.spec.Target, 100*float64(in.Weight), in.Version)
	if in.Shadow > 0 {
		summary = fmt.Sprintf("%s: shadow %g%% to version %s", r.spec.Target, 100*float64(in.Shadow), in.Version)
	}
	err := r.order(ctx, contract.RolloutTrafficActivity, summary, in, &set)
	if err == nil {
		r.at.Revision = set.Revision
	}
	return err
}

// watch evaluates a stage until it passes or must be aborted, somebody orders the end of the rollout, or the history is long. One activity
// evaluates many times, so that a stage of hours has a short history.
func (r *rollout) watch(ctx workflow.Context, i int, stage spec.Stage, replay workflow.Future) error {
	result := &r.at.Results[i]
	for r.at.State.Ordered == nil {
		out, seen, err := r.look(ctx, i, stage)
		if err != nil {
			return err
		}
		if !seen {
			continue
		}
		r.at.Looked = out.State
		if n := len(out.Looks); n > 0 {
			last := out.Looks[n-1]
			result.Looks = append(result.Looks, out.Looks...)
			result.Looks = result.Looks[max(0, len(result.Looks)-r.keeps()):]
			result.Seconds, result.Decision, result.Reason = last.At, last.Decision, last.Reason
			r.at.State.Look = &last
			r.show(ctx)
		}
		switch {
		case result.Decision == decisionPass || result.Decision == decisionAbort:
			return nil
		case replay.IsReady():
			return replayEnded(ctx, replay)
		case ctx.Err() == nil && durable.IsLong(ctx):
			return durable.ErrLong
		}
	}
	result.Reason = r.ordered()
	return nil
}

// keeps is how many looks the result of a stage keeps.
func (r *rollout) keeps() int { return max(1, min(keptOfStage, keptLooks/len(r.spec.Stages))) }

// look lets one activity evaluate a stage. seen is false if somebody has given an order meanwhile, in which case it does not wait for the
// result. Counts are cumulative, so the next look misses nothing.
func (r *rollout) look(ctx workflow.Context, i int, stage spec.Stage) (out contract.RolloutLooked, saw bool, err error) {
	asked := stage
	if r.at.Held > 0 {
		asked.MaxWait += spec.Duration(r.at.Held)
	}
	paused := r.at.State.Paused != nil
	in := contract.RolloutLook{
		Step: r.in, Version: r.at.Opened.Version, Previous: r.at.Opened.Previous, Stage: asked, Tests: r.spec.Tests,
		Stages: len(r.spec.Stages), Revision: r.at.Revision, Elapsed: workflow.Now(ctx).Sub(r.at.Began).Seconds(), State: r.at.Looked,
		Begins: len(r.at.Results[i].Looks) == 0, For: durable.Every(ctx, lookFor), Paused: paused,
	}
	looking, stop := workflow.WithCancel(ctx)
	defer stop()
	options := workflow.WithActivityOptions(looking, orderOptions("evaluate stage "+describe(i, stage)))
	look := workflow.ExecuteActivity(options, contract.RolloutLookActivity, in)
	changed := func() bool { return r.at.State.Ordered != nil || paused != (r.at.State.Paused != nil) }
	r.await(ctx, func() bool { return look.IsReady() || changed() })
	if changed() {
		workflow.Go(ctx, func(ctx workflow.Context) { r.keepLook(ctx, i, look) })
		return out, false, nil
	}
	return out, true, look.Get(ctx, &out)
}

// keepLook shows the newest look of an activity that an order has ended, until the next activity has looked.
func (r *rollout) keepLook(ctx workflow.Context, i int, look workflow.Future) {
	var seen contract.RolloutProgress
	if !lastWords(ctx, look, &seen) || seen.Look == nil {
		return
	}
	if s := &r.at.State; s.Phase == phaseStage && s.Stage == i+1 && (s.Look == nil || s.Look.At < seen.Look.At) {
		s.Look = seen.Look
		r.show(ctx)
	}
}

// replayEnded says why the replayed traffic has ended too early.
func replayEnded(ctx workflow.Context, replay workflow.Future) error {
	if err := replay.Get(ctx, nil); err != nil {
		return err
	}
	return fault.New(fault.Infrastructure, "the replayed traffic ended before the rollout did", nil)
}

// settle promotes the candidate, or rolls back. It moves the traffic first, on a context that a cancellation does not reach.
func (r *rollout) settle(ctx workflow.Context, reason string, failed error) (record.StepOutput, error) {
	promote, said := reason == "", ""
	if o := r.at.State.Ordered; failed == nil && o != nil && o.Action == contract.RolloutPromote {
		promote, said = true, reason
	}
	if promote {
		if failed = r.end(ctx, true, said); failed != nil {
			promote, reason = false, "it could not be promoted: "+fault.Message(failed)
		}
	}
	if !promote {
		if err := r.end(ctx, false, reason); err != nil {
			return record.StepOutput{}, err
		}
	}
	out := spec.RolloutOutput{
		Target: r.spec.Target, Version: r.at.Opened.Version, Previous: r.at.Opened.Previous, Decision: "promoted",
		Reason: reason, Stages: r.at.Results, URL: r.at.Opened.URL,
	}
	if !promote {
		out.Decision = "rolled_back"
	}
	r.at.State.Phase, r.at.State.Decision, r.at.State.Reason = phaseDone, out.Decision, reason
	r.show(ctx)
	raw, err := json.Marshal(out)
	if err != nil {
		return record.StepOutput{}, fmt.Errorf("encode the rollout's outputs: %w", err)
	}
	switch {
	case promote:
		return record.StepOutput{Outputs: raw}, nil
	case failed != nil:
		return record.StepOutput{}, failed
	default:
		return record.StepOutput{}, fault.WithOutputs(fault.Gate, "rolled back: "+reason, raw)
	}
}

// order runs one short activity on the target.
func (r *rollout) order(ctx workflow.Context, name, summary string, in, out any) error {
	return workflow.ExecuteActivity(workflow.WithActivityOptions(ctx, orderOptions(summary)), name, in).Get(ctx, out)
}

func orderOptions(summary string) workflow.ActivityOptions {
	return workflow.ActivityOptions{
		StartToCloseTimeout: targetTimeout,
		HeartbeatTimeout:    durable.HeartbeatTimeout,
		WaitForCancellation: true,
		RetryPolicy: &temporal.RetryPolicy{
			InitialInterval: 200 * time.Millisecond, MaximumInterval: 10 * time.Second, MaximumAttempts: durable.LostWorkers,
			NonRetryableErrorTypes: []string{fault.Invalid, fault.User, fault.Gate},
		},
		Summary: summary,
	}
}

// end moves all traffic to the candidate or back, for a reason. Moving it back is tried for longer, because a target that does not answer
// now must not keep serving a rejected release.
func (r *rollout) end(ctx workflow.Context, promote bool, reason string) error {
	in := contract.RolloutSettle{Step: r.in, Opened: r.at.Opened, Promote: promote, Reason: reason}
	if o := r.at.State.Ordered; o != nil {
		in.By = o.By
	}
	ctx, _ = workflow.NewDisconnectedContext(ctx)
	if promote {
		r.at.State.Phase = phasePromoting
		var settled contract.RolloutSettled
		err := r.order(ctx, contract.RolloutSettleActivity, r.at.State.Phase, in, &settled)
		r.at.Opened.URL = cmp.Or(settled.URL, r.at.Opened.URL)
		return err
	}
	r.at.State.Phase = phaseRollingBack
	options := orderOptions(r.at.State.Phase)
	options.ScheduleToCloseTimeout, options.RetryPolicy.MaximumAttempts = wayBackLimit, 0
	return workflow.ExecuteActivity(workflow.WithActivityOptions(ctx, options), contract.RolloutSettleActivity, in).Get(ctx, nil)
}

// show writes the rollout's details for Temporal's UI.
func (r *rollout) show(ctx workflow.Context) {
	s := r.at.State
	text := fmt.Sprintf("**%s** version %s: %s, stage %d of %d\n", r.spec.Target, s.Version, s.Phase, s.Stage, s.Stages)
	if s.Paused != nil {
		text += "\n" + saidOf("paused", *s.Paused) + "\n"
	}
	if l := s.Look; l != nil {
		side := func(name string, c spec.SideCounts) string {
			return durable.TableRow(name, c.Requests, c.Errors, fmt.Sprintf("%.2f", c.P99MS))
		}
		text += "\n" + durable.TableHead("", "answers", "errors", "p99 ms") + side("candidate", l.Candidate) + side("stable", l.Stable) +
			fmt.Sprintf("\ne-value %.3g: %s %s\n", l.EValue, l.Decision, l.Reason)
	}
	workflow.SetCurrentDetails(ctx, text)
}
