package workflows

import (
	"encoding/json"
	"errors"
	"slices"
	"time"

	"go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/sluiceml/sluice/activities/contract"
	"github.com/sluiceml/sluice/dsl"
)

const (
	// heartbeatTimeout is how soon a killed worker is noticed.
	heartbeatTimeout = 10 * time.Second
	// defaultTimeout bounds an attempt of a step that names no timeout.
	defaultTimeout = 24 * time.Hour
	// defaultAttempts is how often a step that says nothing of retries is tried when machines, not programs, fail.
	defaultAttempts = 3
	// lostWorkers is how many workers may die under a step before that is taken for the step's fault.
	lostWorkers = 20
)

// activityOf names the activity of the kinds whose effect is one.
func activityOf(kind dsl.Kind) string {
	switch kind {
	case dsl.KindClean:
		return contract.CleanActivity
	case dsl.KindEvaluate:
		return contract.EvaluateActivity
	case dsl.KindCompile:
		return contract.CompileActivity
	case dsl.KindRun:
		return contract.RunActivity
	case dsl.KindTrain, dsl.KindRollout:
	}
	return ""
}

// execute makes one attempt of step i.
func (r *run) execute(ctx workflow.Context, i int, in contract.StepInput) (contract.StepOutput, error) {
	node := r.in.Graph[i]
	summary := string(node.Kind) + " " + node.ID + attemptOf(r.steps[i].Attempt)
	timeout := time.Duration(node.Timeout)
	if timeout == 0 {
		timeout = defaultTimeout
	}
	var out contract.StepOutput
	switch node.Kind {
	case dsl.KindTrain:
		// It keeps its own timeout and retries, since its next attempt goes on from the last checkpoint.
		train := contract.TrainInput{StepInput: in, Retry: node.Retry, Timeout: node.Timeout}
		id := contract.TrainWorkflowID(r.in.Run, node.ID)
		return out, r.child(ctx, i, contract.TrainWorkflow, id, summary, train, &out)
	case dsl.KindRollout:
		var spec dsl.Rollout
		if err := json.Unmarshal(in.Spec, &spec); err != nil {
			return out, contract.Error(contract.ErrInvalid, "the rollout's spec cannot be read", err)
		}
		return out, within(ctx, timeout, func(ctx workflow.Context) error {
			return r.child(ctx, i, contract.RolloutWorkflow, contract.RolloutWorkflowID(spec.Target), summary, in, &out)
		})
	default:
		ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
			ActivityID:          contract.ActivityID(node.ID, r.steps[i].Attempt),
			StartToCloseTimeout: timeout,
			HeartbeatTimeout:    heartbeatTimeout,
			WaitForCancellation: true,
			RetryPolicy:         &temporal.RetryPolicy{MaximumAttempts: 1},
			Summary:             summary,
		})
		return out, workflow.ExecuteActivity(ctx, activityOf(node.Kind), in).Get(ctx, &out)
	}
}

// child runs a step that is a workflow of its own. The workflow ID is a lock: while another run holds it, this one waits its turn.
func (r *run) child(
	ctx workflow.Context, i int, name, id, summary string, in any, out *contract.StepOutput,
) error {
	r.steps[i].Child = id
	ctx = workflow.WithChildOptions(ctx, workflow.ChildWorkflowOptions{
		WorkflowID:            id,
		WaitForCancellation:   true,
		ParentClosePolicy:     enums.PARENT_CLOSE_POLICY_REQUEST_CANCEL,
		WorkflowIDReusePolicy: enums.WORKFLOW_ID_REUSE_POLICY_ALLOW_DUPLICATE,
		StaticSummary:         summary,
		TypedSearchAttributes: temporal.NewSearchAttributes(
			temporal.NewSearchAttributeKeyKeyword(contract.SearchPipeline).ValueSet(r.in.Name),
			temporal.NewSearchAttributeKeyKeyword(contract.SearchStep).ValueSet(r.in.Graph[i].ID),
		),
	})
	for pause := time.Second; ; pause = min(2*pause, 30*time.Second) {
		err := workflow.ExecuteChildWorkflow(ctx, name, in).Get(ctx, out)
		var taken *temporal.ChildWorkflowExecutionAlreadyStartedError
		if !errors.As(err, &taken) {
			return err
		}
		r.steps[i].Summary = "waits: another run holds " + id
		if err := workflow.Sleep(ctx, pause); err != nil {
			return err
		}
	}
}

// within cancels what f does when it takes longer than timeout: a child is then left the time to undo what it did.
func within(ctx workflow.Context, timeout time.Duration, f func(workflow.Context) error) error {
	ctx, cancel := workflow.WithCancel(ctx)
	defer cancel()
	late := false
	workflow.Go(ctx, func(ctx workflow.Context) {
		if workflow.Sleep(ctx, timeout) == nil {
			late = true
			cancel()
		}
	})
	err := f(ctx)
	if late && err != nil {
		return contract.Error(contract.ErrTimeout, "it took longer than its timeout of "+timeout.String(), nil)
	}
	return err
}

// budget counts what is left of a step's retries. Two are kept: the user's, and one for workers that died under the step, which
// is never charged to the user.
type budget struct {
	retry    dsl.Retry
	used     int
	lost     int
	interval time.Duration
}

func newBudget(retry dsl.Retry) *budget {
	b := &budget{retry: retry, interval: time.Duration(retry.Backoff)}
	if b.interval == 0 {
		b.interval = 5 * time.Second
	}
	return b
}

// again says whether a failed attempt is followed by another, and after which pause.
func (b *budget) again(err error) (time.Duration, bool) {
	if workerLost(err) {
		b.lost++
		return 0, b.lost <= lostWorkers
	}
	b.used++
	attempts, errs := b.retry.Attempts, b.retry.Errors
	if attempts == 0 {
		attempts = defaultAttempts
	}
	if len(errs) == 0 {
		errs = []string{contract.ErrInfrastructure}
	}
	if b.used >= attempts || !slices.Contains(errs, contract.ErrorType(err)) {
		return 0, false
	}
	pause := b.interval
	b.interval *= 2
	if most := time.Duration(b.retry.MaxBackoff); most > 0 {
		b.interval = min(b.interval, most)
	} else {
		b.interval = min(b.interval, time.Minute)
	}
	return pause, true
}

// workerLost reports whether the attempt ended because the process that ran it stopped heartbeating.
func workerLost(err error) bool {
	var timeout *temporal.TimeoutError
	return errors.As(err, &timeout) && timeout.TimeoutType() == enums.TIMEOUT_TYPE_HEARTBEAT
}

// timedOut reports whether Temporal ended an attempt at its timeout; its own words are for people who know Temporal.
func timedOut(err error) bool {
	var timeout *temporal.TimeoutError
	return errors.As(err, &timeout)
}

// fail puts an attempt's error into the step's end.
func fail(ctx workflow.Context, end *contract.JudgeInput, err error) {
	end.Status, end.Error, end.ErrorType = dsl.StatusFailed, contract.Message(err), contract.ErrorType(err)
	end.Output = contract.StepOutput{Outputs: contract.Outputs(err)}
	switch {
	case workerLost(err):
		end.Error, end.ErrorType = "the worker that ran it stopped answering", contract.ErrInfrastructure
	case timedOut(err):
		end.Error = "it took longer than its timeout"
	case ctx.Err() != nil || end.ErrorType == contract.ErrCanceled:
		end.Status, end.Error, end.ErrorType = dsl.StatusCanceled, "canceled", contract.ErrCanceled
	}
}
