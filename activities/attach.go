package activities

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"runtime/debug"
	"sync"
	"time"

	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/activity"

	"github.com/sluiceml/sluice/internal/heartbeat"
	"github.com/sluiceml/sluice/store/record"
)

const (
	// orphanLimit is how long an execution continues without an activity that waits for it. The next attempt comes when Temporal and the
	// worker can reach each other again, which takes seconds.
	orphanLimit = 2 * time.Minute
	// orphanEvery is the interval between checks whether another attempt may come, and orphanTimeout limits one check.
	orphanEvery, orphanTimeout = 2 * time.Second, 5 * time.Second
	// keptResults is how many results of ended executions are kept, the newest, in case Temporal did not receive them.
	keptResults = 1000
)

// Executions are the executions of steps on this worker, separate from the activities that wait for them. Temporal considers a worker dead
// 10 s after the last heartbeat that it received, even if only Temporal itself was unavailable: the activity of the next attempt then
// attaches to the execution that still runs here, or gets its result.
type Executions struct {
	// Identity is the name by which Temporal knows this worker alone.
	Identity string

	mu     sync.Mutex
	byStep map[string]*execution
	kept   []*execution // that have ended, the oldest first
	closed bool
}

// execution is one execution of a step: its program, what the program needs and what it leaves behind.
type execution struct {
	step    string            // of which run
	task    [sha256.Size]byte // what exactly is done
	ctx     context.Context   // nil when it has ended
	end     context.CancelCauseFunc
	waiting int // activities that wait for it
	done    chan struct{}
	out     record.StepOutput
	err     error
}

// ActivityOf is an activity that executes a step.
type ActivityOf func(context.Context, record.StepInput) (record.StepOutput, error)

// Attachable wraps an activity, so that an attempt attaches to a running execution of the same task if this worker has one.
func (e *Executions) Attachable(do ActivityOf) ActivityOf {
	return func(ctx context.Context, in record.StepInput) (record.StepOutput, error) {
		x, err := e.join(ctx, in, do)
		if err != nil {
			return record.StepOutput{}, err
		}
		select {
		case <-x.done:
		case <-ctx.Done():
			if heartbeat.Forgotten(ctx) {
				return record.StepOutput{}, e.orphan(ctx, in.Step, x)
			}
			x.end(context.Cause(ctx))
			<-x.done
		}
		e.leave(x)
		return x.out, x.err
	}
}

// join returns the execution of a step, and starts one if there is none. An execution of another task is ended first.
func (e *Executions) join(ctx context.Context, in record.StepInput, do ActivityOf) (*execution, error) {
	// After a reset, a workflow must do everything again.
	raw, err := json.Marshal([]any{activity.GetInfo(ctx).WorkflowExecution.RunID, in})
	if err != nil {
		return nil, err
	}
	step, task := in.Run+"/"+in.Step, sha256.Sum256(raw)
	for {
		x, joined := e.find(ctx, step, task, func(ctx context.Context) (record.StepOutput, error) { return do(ctx, in) })
		if joined {
			return x, nil
		}
		select {
		case <-x.done:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// find returns the execution of a step, or a new one if none has this task. An execution that must end first is not joined.
func (e *Executions) find(
	ctx context.Context, step string, task [sha256.Size]byte, do func(context.Context) (record.StepOutput, error),
) (x *execution, joined bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	x = e.byStep[step]
	switch {
	case x == nil, x.ctx == nil && x.task != task:
		x = e.begin(ctx, step, task, do)
	case x.task != task:
		x.end(errors.New("the step has a different spec now"))
		return x, false
	case x.ctx != nil && x.ctx.Err() != nil: // it is ending
		return x, false
	default:
		activity.GetLogger(ctx).Info("attached to the execution that an earlier attempt started", "step", step)
	}
	x.waiting++
	if x.ctx != nil {
		heartbeat.Follow(ctx, x.ctx)
	}
	return x, true
}

// begin starts an execution, whose context outlives that of the activity.
func (e *Executions) begin(
	ctx context.Context, step string, task [sha256.Size]byte, do func(context.Context) (record.StepOutput, error),
) *execution {
	x := &execution{step: step, task: task, done: make(chan struct{})}
	apart, end := heartbeat.Detach(ctx)
	x.ctx, x.end = apart, end
	if e.byStep == nil {
		e.byStep = map[string]*execution{}
	}
	e.byStep[step] = x
	if e.closed {
		end(errors.New("the worker is stopping"))
	}
	go func() {
		out, err := guarded(apart, do)
		e.mu.Lock()
		defer e.mu.Unlock()
		ended := apart.Err() != nil
		x.out, x.err, x.ctx = out, err, nil
		end(nil)
		close(x.done)
		if ended && err != nil { // an attempt that waits for its end starts its own, and does not get this error
			e.forget(x)
			return
		}
		e.keep(x)
	}()
	return x
}

// guarded turns a panic into an error, as the SDK does for activities.
func guarded(ctx context.Context, do func(context.Context) (record.StepOutput, error)) (out record.StepOutput, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
		}
	}()
	return do(ctx)
}

// keep stores the result of an execution, and forgets the oldest result if there are too many.
func (e *Executions) keep(x *execution) {
	e.kept = append(e.kept, x)
	if len(e.kept) <= keptResults {
		return
	}
	e.forget(e.kept[0])
	e.kept = e.kept[1:]
}

func (e *Executions) forget(x *execution) {
	if e.byStep[x.step] == x {
		delete(e.byStep, x.step)
	}
}

// leave ends the wait for an execution that has ended. A failed execution is not attached to again: the next attempt starts a new one.
func (e *Executions) leave(x *execution) {
	e.mu.Lock()
	defer e.mu.Unlock()
	x.waiting--
	if x.err != nil {
		e.forget(x)
	}
}

// orphan ends the wait of an activity that Temporal has given up. If it was the last one, the execution ends unless another activity starts
// to wait in time.
func (e *Executions) orphan(ctx context.Context, step string, x *execution) error {
	cause := context.Cause(ctx)
	ctx = context.WithoutCancel(ctx)
	e.mu.Lock()
	x.waiting--
	e.mu.Unlock()
	limit, look := time.After(orphanLimit), time.Tick(orphanEvery)
	for {
		why := e.deserted(ctx, step)
		select {
		case <-x.done: // what came of it is there for the next attempt
			return cause
		case <-limit:
			why = "no other attempt has attached"
		default:
		}
		if why != "" && e.endOrphan(x, why) {
			activity.GetLogger(ctx).Warn("the execution of a step is stopped: Temporal has given up its activity", "step", x.step, "why", why)
			<-x.done
			e.mu.Lock()
			defer e.mu.Unlock()
			e.forget(x)
			return cause
		}
		if e.isTaken(x) {
			return cause
		}
		select {
		case <-x.done:
		case <-look:
		case <-limit:
		}
	}
}

func (e *Executions) isTaken(x *execution) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return x.waiting > 0
}

// endOrphan ends an execution unless an activity waits for it.
func (e *Executions) endOrphan(x *execution, why string) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if x.waiting > 0 {
		return false
	}
	x.end(errors.New(why))
	return true
}

// deserted says why no further attempt of a step will come to this worker, as far as Temporal knows; it is empty if one may.
func (e *Executions) deserted(ctx context.Context, step string) string {
	ctx, cancel := context.WithTimeout(ctx, orphanTimeout)
	defer cancel()
	of := activity.GetInfo(ctx).WorkflowExecution
	now, err := activity.GetClient(ctx).DescribeWorkflowExecution(ctx, of.ID, of.RunID)
	status := now.GetWorkflowExecutionInfo().GetStatus()
	switch {
	case errors.As(err, new(*serviceerror.NotFound)):
		return "its workflow does not exist any more"
	case err != nil:
		return "" // Temporal is away again
	case status != enums.WORKFLOW_EXECUTION_STATUS_RUNNING && status != enums.WORKFLOW_EXECUTION_STATUS_PAUSED:
		return "its workflow has ended"
	case now.GetWorkflowExtendedInfo().GetCancelRequested():
		return "its workflow has been canceled"
	}
	for _, a := range now.GetPendingActivities() {
		if path.Dir(a.GetActivityId()) == step && a.GetState() != enums.PENDING_ACTIVITY_STATE_SCHEDULED && a.GetLastWorkerIdentity() != e.Identity {
			return "another worker has restarted the step: " + a.GetLastWorkerIdentity()
		}
	}
	return ""
}

// Close ends all executions.
func (e *Executions) Close() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.closed = true
	for _, x := range e.byStep {
		if x.ctx != nil {
			x.end(errors.New("the worker is stopping"))
		}
	}
}
