// Package workflows is Sluice's deterministic orchestration: one file per kind that has any. Nothing in it does I/O, reads a clock,
// ranges over a map or evaluates an expression; it asks activities and keeps state.
package workflows

import (
	"strconv"
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/sluiceml/sluice/activities/contract"
	"github.com/sluiceml/sluice/dsl"
)

// Pipeline walks a run's graph. A step starts when the steps it needs have ended, side by side with whatever else is ready; how
// it ends is the word of the judge activity. The workflow fails with the first failed step's error type, and ends as cancelled
// when it was cancelled; a declined run succeeds.
func Pipeline(ctx workflow.Context, in contract.RunInput) (contract.RunOutput, error) {
	r := newRun(in, workflow.Now(ctx))
	if err := workflow.SetQueryHandler(ctx, contract.StateQuery, r.state); err != nil {
		return contract.RunOutput{}, err
	}
	begin := contract.BeginInput{RunInput: in, StartedAt: r.startedAt}
	opening, _ := workflow.NewDisconnectedContext(ctx) // a run that is cancelled at once has a record too
	if err := local(opening, contract.BeginActivity, "open the run's record", begin, nil); err != nil {
		return contract.RunOutput{}, err
	}
	r.listen(ctx)
	for i := range r.in.Graph {
		if r.waiting[i] == 0 {
			r.start(ctx, i)
		}
	}
	r.running.Wait(ctx)
	return r.finish(ctx)
}

// run is the state of one pipeline workflow.
type run struct {
	in        contract.RunInput
	startedAt time.Time
	steps     []contract.StepState
	endings   []ending
	index     map[string]int
	waiting   []int   // how many needed steps have not ended
	readers   [][]int // who waits for a step
	reuse     map[string]bool
	running   workflow.WaitGroup
	shown     time.Time // when the details were last written
}

// ending is what the end of a run and the readers of a step must know of it.
type ending struct {
	err, errType string
}

func newRun(in contract.RunInput, now time.Time) *run {
	n := len(in.Graph)
	r := &run{
		in: in, startedAt: now,
		steps: make([]contract.StepState, n), endings: make([]ending, n),
		index: make(map[string]int, n), waiting: make([]int, n), readers: make([][]int, n),
		reuse: make(map[string]bool, len(in.Reuse)),
	}
	for i, node := range in.Graph {
		r.index[node.ID] = i
		r.steps[i] = contract.StepState{ID: node.ID, Kind: node.Kind, Status: dsl.StatusPending}
		for _, need := range node.After {
			r.waiting[i]++
			r.readers[r.index[need]] = append(r.readers[r.index[need]], i)
		}
	}
	for _, id := range in.Reuse {
		r.reuse[id] = true
	}
	return r
}

func (r *run) state() (contract.RunState, error) {
	return contract.RunState{Status: dsl.StatusRunning, Steps: r.steps}, nil
}

// start runs step i in a coroutine of its own; when it has ended, the steps that waited for it only are started.
func (r *run) start(ctx workflow.Context, i int) {
	if r.running == nil {
		r.running = workflow.NewWaitGroup(ctx)
	}
	r.running.Add(1)
	workflow.GoNamed(ctx, r.in.Graph[i].ID, func(ctx workflow.Context) {
		defer r.running.Done()
		r.step(ctx, i)
		for _, reader := range r.readers[i] {
			if r.waiting[reader]--; r.waiting[reader] == 0 {
				r.start(ctx, reader)
			}
		}
	})
}

// step takes one step from pending to its end.
func (r *run) step(ctx workflow.Context, i int) {
	node, state := r.in.Graph[i], &r.steps[i]
	state.StartedAt, state.Status = workflow.Now(ctx), dsl.StatusRunning
	at := contract.ResolveInput{
		Run: r.in.Run, Submission: r.in.Submission, Step: node.ID, StartedAt: r.startedAt, Now: state.StartedAt,
	}
	end := contract.JudgeInput{ResolveInput: at, Kind: node.Kind}
	if end.Status = r.admit(ctx, node); end.Status == dsl.StatusPending {
		r.show(ctx, true)
		r.perform(ctx, i, &end)
	} else if end.Status != dsl.StatusSucceeded {
		end.Error, end.ErrorType = r.blame(node)
	}
	end.EndedAt = workflow.Now(ctx)
	r.judge(ctx, i, end)
	r.show(ctx, false)
}

// admit says whether a step may run (pending), or how it ends without running: reused steps have succeeded already.
func (r *run) admit(ctx workflow.Context, node dsl.Node) dsl.Status {
	if r.reuse[node.ID] {
		return dsl.StatusSucceeded
	}
	if ctx.Err() != nil {
		return dsl.StatusCanceled
	}
	verdict := dsl.StatusPending
	for _, id := range node.After {
		switch status := r.steps[r.index[id]].Status; met(node.Needs[id], status) {
		case dsl.StatusUpstream:
			return dsl.StatusUpstream
		case dsl.StatusSkipped:
			verdict = dsl.StatusSkipped
		default:
		}
	}
	return verdict
}

// met says what a need makes of the status of the step it is about: pending (go on), skipped or upstream.
func met(need dsl.Need, status dsl.Status) dsl.Status {
	ok := false
	switch need {
	case dsl.NeedPassed:
		ok = status == dsl.StatusSucceeded
	case dsl.NeedNotFailed:
		ok = status == dsl.StatusSucceeded || status == dsl.StatusSkipped
	case dsl.NeedEnded:
		ok = true
	case dsl.NeedFailed:
		if status == dsl.StatusFailed {
			return dsl.StatusPending
		}
		return dsl.StatusSkipped
	}
	switch {
	case ok:
		return dsl.StatusPending
	case status == dsl.StatusSkipped:
		return dsl.StatusSkipped
	default:
		return dsl.StatusUpstream
	}
}

// blame names the needed step that keeps node from running.
func (r *run) blame(node dsl.Node) (message, errType string) {
	for _, id := range node.After {
		status := r.steps[r.index[id]].Status
		if met(node.Needs[id], status) != dsl.StatusPending {
			return "not run: it needs `" + id + "` " + string(node.Needs[id]) + ", which ended as " + string(status), ""
		}
	}
	return "not run: the run was canceled", contract.ErrCanceled
}

// perform resolves a step and does what it says, with the retries it asked for.
func (r *run) perform(ctx workflow.Context, i int, end *contract.JudgeInput) {
	node := r.in.Graph[i]
	var resolved contract.Resolved
	if err := local(ctx, contract.ResolveActivity, "resolve "+node.ID, end.ResolveInput, &resolved); err != nil {
		fail(ctx, end, err)
		return
	}
	if resolved.Skip {
		end.Status, end.Error = dsl.StatusSkipped, "its `when` was false"
		return
	}
	retry := node.Retry
	if node.Kind == dsl.KindTrain {
		retry = dsl.Retry{Attempts: 1} // it retries by itself
	}
	for budget := newBudget(retry); ; {
		r.steps[i].Attempt = len(end.Attempts) + 1
		started := workflow.Now(ctx)
		out, err := r.execute(ctx, i, resolved.Step)
		if err == nil {
			end.Status, end.Output, end.Error, end.ErrorType = dsl.StatusSucceeded, out, "", ""
			return
		}
		fail(ctx, end, err)
		end.Attempts = append(end.Attempts, contract.Attempt{
			StartedAt: started, EndedAt: workflow.Now(ctx), ErrorType: end.ErrorType, Error: end.Error,
		})
		pause, again := budget.again(err)
		if !again {
			return
		}
		if err := workflow.Sleep(ctx, pause); err != nil {
			fail(ctx, end, err)
			return
		}
	}
}

// judge writes the step's record and takes over the judge's word. It runs also after a cancel.
func (r *run) judge(ctx workflow.Context, i int, end contract.JudgeInput) {
	ctx, _ = workflow.NewDisconnectedContext(ctx)
	if r.reuse[end.Step] {
		end.ReuseFrom = r.in.ReuseFrom
	}
	var word contract.Judged
	if err := local(ctx, contract.JudgeActivity, "judge "+end.Step, end, &word); err != nil {
		word = contract.Judged{Status: dsl.StatusFailed, Error: contract.Message(err), ErrorType: contract.ErrorType(err)}
	}
	state := &r.steps[i]
	state.Status, state.Summary, state.EndedAt = word.Status, word.Summary, end.EndedAt
	if word.Error != "" {
		state.Summary = word.Error
	}
	r.endings[i] = ending{err: word.Error, errType: word.ErrorType}
}

// finish closes the run's record and turns the steps' ends into the run's.
func (r *run) finish(ctx workflow.Context) (contract.RunOutput, error) {
	out := r.outcome(ctx.Err() != nil)
	canceled := ctx.Err()
	ctx, _ = workflow.NewDisconnectedContext(ctx)
	in := contract.FinishInput{
		Run: r.in.Run, Submission: r.in.Submission, StartedAt: r.startedAt, EndedAt: workflow.Now(ctx), RunOutput: out,
	}
	if err := local(ctx, contract.FinishActivity, "close the run's record", in, &out); err != nil {
		return out, err
	}
	workflow.SetCurrentDetails(ctx, r.details(ctx, out.Status))
	verdict := temporal.NewSearchAttributeKeyKeyword(contract.SearchVerdict).ValueSet(string(out.Status))
	if err := workflow.UpsertTypedSearchAttributes(ctx, verdict); err != nil {
		return out, err
	}
	switch out.Status {
	case dsl.StatusCanceled:
		return out, canceled
	case dsl.StatusFailed:
		return out, temporal.NewNonRetryableApplicationError(out.Error, out.ErrorType, nil)
	default:
		return out, nil
	}
}

func (r *run) outcome(canceled bool) contract.RunOutput {
	out := contract.RunOutput{Status: dsl.StatusSucceeded}
	for i, s := range r.steps {
		switch s.Status {
		case dsl.StatusFailed:
			e := r.endings[i]
			return contract.RunOutput{Status: dsl.StatusFailed, Error: s.ID + ": " + e.err, ErrorType: e.errType}
		case dsl.StatusCanceled:
			canceled = true
		case dsl.StatusDeclined:
			out = contract.RunOutput{Status: dsl.StatusDeclined, Error: s.ID + ": " + r.endings[i].err, ErrorType: contract.ErrGate}
		default:
		}
	}
	if canceled {
		return contract.RunOutput{Status: dsl.StatusCanceled, Error: "canceled", ErrorType: contract.ErrCanceled}
	}
	return out
}

// localOptions bound the engine's local activities: they read and write small records and evaluate expressions.
func localOptions(summary string) workflow.LocalActivityOptions {
	return workflow.LocalActivityOptions{
		StartToCloseTimeout: 20 * time.Second,
		RetryPolicy: &temporal.RetryPolicy{
			InitialInterval: 100 * time.Millisecond, MaximumInterval: 5 * time.Second, MaximumAttempts: 8,
			NonRetryableErrorTypes: []string{contract.ErrInvalid, contract.ErrUser, contract.ErrGate},
		},
		Summary: summary,
	}
}

func local(ctx workflow.Context, name, summary string, in, out any) error {
	return workflow.ExecuteLocalActivity(workflow.WithLocalActivityOptions(ctx, localOptions(summary)), name, in).Get(ctx, out)
}

// attemptOf labels an attempt in summaries: nothing for the first.
func attemptOf(n int) string {
	if n <= 1 {
		return ""
	}
	return " (attempt " + strconv.Itoa(n) + ")"
}
