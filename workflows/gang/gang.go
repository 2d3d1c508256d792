// Package gang is the workflow of a train step: generations of a gang, each of which starts from a sealed checkpoint.
package gang

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/sluiceml/sluice/activities/contract"
	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/fault"
	"github.com/sluiceml/sluice/store/record"
	"github.com/sluiceml/sluice/training"
	"github.com/sluiceml/sluice/training/protocol"
	"github.com/sluiceml/sluice/workflows/durable"
)

// remoteLimit limits one of the worker's activities.
const remoteLimit = patience + 30*time.Minute

// maxFalseStarts is how many generations in a row may lose a node before their ranks run: more than that is not bad luck.
const maxFalseStarts = 5

// Train trains on a gang of nodes that may be taken away at any moment. It works in generations: seal the checkpoint to resume from,
// acquire a gang, run the ranks, release the gang. A generation that ends by preemption is followed by the next one and uses up no retry.
// One that ends by a crash, a hang or an error of the program uses up a retry, and is followed by one on the same nodes if these are
// healthy. When it is canceled, it first stops the ranks and releases the gang.
func Train(ctx workflow.Context, in contract.TrainInput) (record.StepOutput, error) {
	ctx = durable.Measured(ctx)
	t := &train{in: in, carried: in.Continuation, notices: workflow.GetSignalChannel(ctx, protocol.NoticeSignal)}
	if err := workflow.SetQueryHandler(ctx, contract.StateQuery, t.query); err != nil {
		return record.StepOutput{}, err
	}
	continues := !t.carried.BeganAt.IsZero()
	if !continues {
		t.carried.BeganAt = workflow.Now(ctx)
	}
	plan := contract.PlanInput{StepInput: in.StepInput, BeganAt: t.carried.BeganAt, Resumes: in.ResumeRun != "", Continues: continues}
	if err := durable.Local(ctx, contract.PlanActivity, "plan "+in.Step, plan, &t.plan); err != nil {
		return record.StepOutput{}, err
	}
	if t.carried.AttemptAt.IsZero() {
		t.carried.AttemptAt = workflow.Now(ctx)
	}
	t.budget = durable.NewRetryBudget(in.Retry)
	t.budget.Used = t.carried.Failures
	for {
		end, err := t.generation(ctx)
		switch {
		case errors.Is(err, durable.ErrLong):
			return record.StepOutput{}, t.goOn(ctx)
		case err != nil:
			return record.StepOutput{}, t.withAccount(ctx, err)
		case end.how == spec.EndFinished:
			return t.collect(ctx, end)
		}
		if err := t.settle(ctx, end); err != nil {
			t.dropNext(ctx)
			return record.StepOutput{}, t.withAccount(ctx, err)
		}
		if durable.IsLong(ctx) {
			return record.StepOutput{}, t.goOn(ctx)
		}
	}
}

// goOn continues in a new history.
func (t *train) goOn(ctx workflow.Context) error {
	t.in.Continuation = t.carried
	return workflow.NewContinueAsNewError(ctx, contract.TrainWorkflow, t.in)
}

// train is the state of one train workflow.
type train struct {
	in      contract.TrainInput
	plan    contract.TrainPlan
	carried contract.TrainContinuation
	budget  *durable.RetryBudget
	notices workflow.ReceiveChannel

	phase   string
	current spec.Generation
	nodes   []string
	before  fault.Costs // what gangs have cost that were started for the current generation, and ended before its own
	// askedAhead is set if pools were asked for the next generation's gang, which may still start.
	askedAhead bool
}

func (t *train) query() (contract.TrainState, error) {
	return contract.TrainState{
		Generation: t.current.Index, Phase: t.phase, Nodes: t.nodes, Ended: t.carried.Generations,
	}, nil
}

// key identifies the current generation.
func (t *train) key() training.Key {
	return training.Key{Run: t.in.Run, Step: t.in.Step, Generation: t.current.Index}
}

// generation executes one generation from its seal to its release.
func (t *train) generation(ctx workflow.Context) (trainEnd, error) {
	t.current = spec.Generation{Index: len(t.carried.Generations) + 1, StartedAt: workflow.Now(ctx)}
	t.nodes = nil
	l := &generation{train: t}
	if err := t.seal(ctx, l); err != nil {
		return trainEnd{}, t.abandon(ctx, err)
	}
	if err := t.fruitful(); err != nil {
		return trainEnd{}, t.abandon(ctx, err)
	}
	if err := t.acquire(ctx, l); errors.Is(err, errLate) {
		reason := "it timed out while waiting for nodes"
		if why, ok := strings.CutPrefix(t.phase, acquiringPhase); ok {
			reason += ": " + why
		}
		return t.charge(trainEnd{how: spec.EndTimeout, errType: fault.Timeout, reason: reason}), nil
	} else if err != nil {
		return trainEnd{}, err
	}
	end := t.charge(l.live(ctx))
	l.avoid()
	t.current.GPUs = l.gpus()
	t.current.Slow = l.slow()
	l.awaitWatcher(ctx, end)
	if l.goesOn(ctx, end) {
		l.close(ctx, end, contract.Released{})
		l.hold()
		return end, nil
	}
	released, err := t.release(ctx, l.gangKey(), l.lost(), t.current.Pool)
	end = l.reconsider(end, released)
	if err != nil && end.isLast() {
		workflow.GetLogger(ctx).Error("release the nodes of the last generation", "error", err)
		end.reason, err = strings.TrimPrefix(end.reason+"; "+unreleased(l.current.Pool, err), "; "), nil
	}
	l.close(ctx, end, released)
	if err != nil {
		t.dropNext(ctx)
	}
	return end, err
}

// seal starts the generation and closes the account of the previous one: what that did after the sealed step is lost.
func (t *train) seal(ctx workflow.Context, l *generation) error {
	t.enter(ctx, "sealing")
	var out contract.SealOutput
	in := contract.SealInput{Key: t.key(), ResumeRun: t.in.ResumeRun, ResumeFrom: t.plan.ResumeFrom, Unusable: t.carried.Unusable}
	if err := t.remote(ctx, contract.SealActivity, in, &out); err != nil {
		return err
	}
	l.seal = out.Seal
	t.current.FromStep, t.current.ToStep = out.Seal.FromStep(), out.Seal.FromStep()
	if out.Seal.Resume != nil {
		t.current.Checkpoint = out.Seal.Resume.Checkpoint
	}
	if n := len(t.carried.Generations); n > 0 {
		before := &t.carried.Generations[n-1]
		known := before.ToStep
		before.ToStep = max(before.ToStep, out.Reached)
		countSteps(ctx, before.ToStep-known)
		before.CommittedStep = t.current.FromStep
		before.StepsLost = max(0, before.ToStep-before.CommittedStep)
		before.StepsAtLeast = before.StepsAtLeast && !out.Exact
		countLost(ctx, before.StepsLost)
		t.noteBegin(ctx, before, t.carried.Generations[:n-1], out.Began, out.Reached)
		worked := before.ToStep > 0 || before.StoppedAt.Sub(before.RanAt) > time.Minute
		if out.Seal.Resume == nil && worked && isInterrupted(before.End) && t.in.Kind.Work() == "" {
			before.Reason += "; no checkpoint had been committed, so the training begins again: is one written to $SLUICE_CHECKPOINT_DIR?"
		}
	}
	return nil
}

// close adds the generation to the account.
func (l *generation) close(ctx workflow.Context, end trainEnd, released contract.Released) {
	g := &l.current
	g.EndedAt = workflow.Now(ctx)
	g.End, g.Reason = end.how, end.reason
	g.ToStep = max(g.ToStep, end.step)
	g.CommittedStep = max(g.FromStep, end.committed)
	g.StepsAtLeast = end.unread
	l.noteBegin(ctx, g, l.carried.Generations, end.began, end.step)
	l.settleCost(released)
	l.carried.Generations = append(l.carried.Generations, *g)
	countGeneration(ctx, *g)
	durable.Conclude(ctx, fmt.Sprintf("generation %d", g.Index), string(end.how), end.reason)
	if end.unusable {
		l.carried.Unusable = append(l.carried.Unusable, g.Checkpoint)
	}
	if end.ran {
		l.carried.FalseStarts = 0
	} else {
		l.carried.FalseStarts++
	}
}

// noteBegin corrects the account if a generation that was given a checkpoint began at or before its step, so that steps until then were lost.
func (t *train) noteBegin(ctx workflow.Context, g *spec.Generation, before []spec.Generation, began *int64, reached int64) {
	r := protocol.Resumption{From: g.FromStep, Began: began}
	if g.NotResumed || r.Failed() == "" {
		return
	}
	g.NotResumed, g.Reason = true, strings.TrimPrefix(g.Reason+"; "+r.Failed(), "; ")
	g.FromStep = max(0, *began-1)
	g.ToStep = max(g.FromStep, reached)
	if n := len(before); n > 0 {
		lost := max(0, before[n-1].ToStep-g.FromStep)
		countLost(ctx, lost-before[n-1].StepsLost)
		before[n-1].StepsLost = lost
	}
}

// isInterrupted reports whether a generation ended for a reason other than its program.
func isInterrupted(end spec.GenerationEnd) bool {
	return end == spec.EndNotice || end == spec.EndNodeLost || end == spec.EndMoved
}

// maxFruitless is how many generations may lose their nodes without a newer checkpoint than all before, and maxTaken how many may end at all
// without one, also by notices and moves, which are not the program's doing. If machines last long enough at all, one does within this number; a
// program that crashes its machines, or saves too rarely, never makes progress.
const (
	maxFruitless = 10
	maxTaken     = 30
)

// fruitful returns an error if the generations since the newest checkpoint have made no progress. A generation that goes back to an older one,
// because the newest is damaged, makes none.
func (t *train) fruitful() error {
	n, lost, furthest := 0, 0, int64(0)
	all := append(slices.Clone(t.carried.Generations), t.current)
	for i, g := range all {
		given := i == 0 || g.Checkpoint != all[i-1].Checkpoint
		newer := g.FromStep > furthest && (given || !all[i-1].NotResumed)
		if g.NotResumed { // its FromStep is where its script began
			newer = given
		}
		if newer {
			n, lost, furthest = 0, 0, max(furthest, g.FromStep)
		}
		switch g.End {
		case spec.EndNodeLost, spec.EndDamaged:
			n, lost = n+1, lost+1
		case spec.EndNotice, spec.EndMoved:
			n++
		default:
		}
	}
	if lost < maxFruitless && n < maxTaken {
		return nil
	}
	last := t.carried.Generations[len(t.carried.Generations)-1]
	if last.NotResumed {
		return fault.Errorf(fault.User,
			"the nodes were lost %d times in a row, and each time the training began again: the script does not resume from the checkpoint of step %d, "+
				"which is in $SLUICE_RESUME_DIR and in $SLUICE_CHECKPOINT_DIR. The last time: %s", n, t.current.FromStep, last.Reason)
	}
	return fault.Errorf(fault.Preempted,
		"the nodes were lost %d times in a row without a newer checkpoint than that of step %d, the last time because: %s. Either the program takes its machines "+
			"down, or they do not last until it saves: write checkpoints more often, or use `capacity: on_demand`",
		n, furthest, last.Reason)
}

// settle decides what follows a generation that did not finish; nil means the next generation.
func (t *train) settle(ctx workflow.Context, end trainEnd) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if end.errType == "" {
		if t.carried.FalseStarts >= maxFalseStarts {
			return fault.Errorf(fault.Infrastructure,
				"the nodes were lost %d times in a row before the ranks ran, the last time because: %s", t.carried.FalseStarts, end.reason)
		}
		return nil
	}
	if end.failure != nil {
		return end.failure
	}
	t.carried.Failures = t.budget.Used
	if err := durable.Sleep(ctx, end.pause, "before the next attempt"); err != nil {
		return err
	}
	t.carried.AttemptAt = workflow.Now(ctx)
	return nil
}

// charge counts a failure against the step's retries.
func (t *train) charge(end trainEnd) trainEnd {
	if end.errType == "" {
		return end
	}
	failure := fault.New(end.errType, end.message(), nil)
	pause, again := t.budget.Again(failure)
	if end.pause = pause; !again || end.how == spec.EndDeadline || end.how == spec.EndIdle {
		end.failure = failure
	}
	return end
}

// collect builds the step's result from the last generation.
func (t *train) collect(ctx workflow.Context, end trainEnd) (record.StepOutput, error) {
	t.enter(ctx, "collecting")
	var out record.StepOutput
	in := contract.CollectInput{
		StepInput: t.in.StepInput, Generations: t.carried.Generations, Outputs: end.outputs, Metrics: end.metrics,
		Late: !t.plan.Deadline.IsZero() && t.current.EndedAt.After(t.plan.Deadline),
	}
	err := t.remote(ctx, contract.CollectActivity, in, &out)
	t.phase = "done"
	t.show(ctx)
	if err != nil {
		return out, t.withAccount(ctx, err)
	}
	return out, nil
}

const (
	// maxTries is how often one of the worker's activities is tried, and maxTryPause the longest pause between two.
	maxTries    = 8
	maxTryPause = 30 * time.Second
)

// remote runs one of the worker's activities. They are idempotent, so work that a dying worker began is repeated.
func (t *train) remote(ctx workflow.Context, name string, in, out any) error {
	return t.tryRemote(ctx, maxTries, name, in, out)
}

// tryRemote is remote with at most so many tries.
func (t *train) tryRemote(ctx workflow.Context, tries int32, name string, in, out any) error {
	ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		StartToCloseTimeout: remoteLimit,
		HeartbeatTimeout:    durable.HeartbeatTimeout,
		WaitForCancellation: true,
		RetryPolicy: &temporal.RetryPolicy{
			InitialInterval: time.Second, MaximumInterval: maxTryPause, MaximumAttempts: tries,
			NonRetryableErrorTypes: []string{fault.Invalid, fault.User, fault.Gate, fault.Preempted},
		},
		Summary: fmt.Sprintf("%s, generation %d", strings.TrimPrefix(name, "sluice.train."), t.current.Index),
	})
	return workflow.ExecuteActivity(ctx, name, in).Get(ctx, out)
}

// enter starts a phase.
func (t *train) enter(ctx workflow.Context, phase string) {
	t.phase = phase
	t.show(ctx)
	if phase == "running" {
		t.report(ctx)
	}
}

// report tells the run about a generation. The more generations there are, the fewer are reported: reports add to the history of the run,
// which cannot continue as new while the training runs.
func (t *train) report(ctx workflow.Context) {
	n := t.current.Index
	if t.in.Unheard || n&(n-1) != 0 {
		return
	}
	text := fmt.Sprintf("generation %d on %s", n, strings.Join(t.nodes, ", "))
	if n > 1 {
		text = fmt.Sprintf("generation %d or later", n)
	}
	durable.Tell(ctx, contract.Note{Step: t.in.Step, Text: text})
}

// show writes the details that Temporal's UI shows of the workflow.
func (t *train) show(ctx workflow.Context) {
	var b strings.Builder
	fmt.Fprintf(&b, "**%s** of run `%s`: generation %d, %s", t.in.Step, t.in.Run, t.current.Index, t.phase)
	if len(t.nodes) > 0 {
		fmt.Fprintf(&b, " on %s (%s of pool %s)", strings.Join(t.nodes, ", "), capacityWords[t.current.Capacity], t.current.Pool)
	}
	if t.current.FromStep > 0 {
		fmt.Fprintf(&b, ", from step %d", t.current.FromStep)
	}
	if ended := t.carried.Generations; len(ended) > 0 {
		b.WriteString("\n\n" + durable.TableHead("#", "on", "steps", "kept", "time", "end"))
		for _, g := range ended[max(0, len(ended)-durable.MaxRows):] {
			on := durable.Unbroken.Replace(fmt.Sprintf("%d %s", g.Nodes, capacityWords[g.Capacity]))
			steps := durable.Unbroken.Replace(fmt.Sprintf("%d-%d", g.FromStep, g.ToStep))
			end := cmp.Or(durable.Cell(g.Reason), string(g.End))
			if g.Slow != "" {
				end += "; slow: " + durable.Cell(g.Slow)
			}
			b.WriteString(durable.TableRow(g.Index, on, steps, g.CommittedStep, durable.Elapsed(g.StartedAt, g.EndedAt), end))
		}
	}
	workflow.SetCurrentDetails(ctx, b.String())
}
