package workflows

import (
	"cmp"
	"encoding/json"
	"strings"
	"time"

	"go.temporal.io/sdk/workflow"

	"github.com/sluiceml/sluice/activities/contract"
	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/fault"
	"github.com/sluiceml/sluice/store/record"
	"github.com/sluiceml/sluice/workflows/durable"
)

// job is one execution of a step, or of one instance of a step: resolved, performed with retries, evaluated and, if the verdict of its gate
// is hold, decided by a person.
type job struct {
	in       contract.ResolveInput
	pipeline string
	node     spec.Node
	// state is the current state of the step, for observers; show is called when it has changed.
	state *contract.StepState
	show  func(workflow.Context)
	// held is called when the job begins to wait for a person.
	held func(workflow.Context, *contract.ApprovalInput)
	// journal takes the end of the job, and its record is written later; without a journal, the record is durable at once.
	journal *journal
	// verdict is that of the activity that executed the step, if it also evaluated the step; asked are the steps that it should also
	// resolve.
	verdict *contract.StepVerdict
	asked   []contract.ResolveInput
	// resolved is the resolved step, if it is already known.
	resolved *contract.Resolved
	// tries are the attempts of an earlier history. If this history is long before the next attempt, that is left to the next history, and
	// postponed is set.
	tries     contract.Tries
	postponed bool
	// next lists the steps to resolve together with the verdict, and ahead receives the results.
	next  func(workflow.Context) []contract.ResolveInput
	ahead func([]contract.ResolveInput, []*contract.Resolved)
	// turns order the jobs of this history that wait for the workflow ID of a child.
	turns turns
	// budgetUSD limits the cost of the job; 0 means no limit. cost is the cost of its child runs.
	budgetUSD float64
	cost      fault.Costs
}

// do runs the job to its end, unless it is postponed. It always returns a verdict: errors are part of it.
func (j *job) do(ctx workflow.Context) contract.StepVerdict {
	end := contract.StepEnd{StepRef: j.in.StepRef, RunContext: j.in.RunContext, Kind: j.node.Kind, Status: spec.StatusPending}
	if j.perform(ctx, &end); j.postponed {
		return contract.StepVerdict{}
	}
	return j.conclude(ctx, end)
}

// perform resolves the job and executes it, with its retries.
func (j *job) perform(ctx workflow.Context, end *contract.StepEnd) {
	var resolved contract.Resolved
	if j.resolved != nil {
		resolved = *j.resolved
	} else {
		in := j.in
		in.Ends = j.journal.takeUnwritten()
		if err := j.journal.local(ctx, contract.ResolveActivity, "resolve "+j.in.ID(), in, &resolved); err != nil {
			fail(ctx, end, err)
			return
		}
	}
	end.Key, end.Line = resolved.Key, resolved.Summary
	switch {
	case resolved.Skip != "":
		end.Status, end.Error = spec.StatusSkipped, resolved.Skip
		return
	case resolved.Hit != "":
		end.Status, end.Output, end.ReusedFrom = spec.StatusSucceeded, resolved.Output, resolved.Hit
		return
	}
	if resolved.Summary != "" {
		j.state.Summary = resolved.Summary
	}
	retry := j.node.Retry
	if kindOf(j.node).retriesItself {
		retry = spec.Retry{Attempts: 1}
	}
	budget := durable.NewRetryBudget(retry)
	if n := len(j.tries.Attempts); n > 0 {
		budget.Resume(j.tries)
		end.Attempts, j.cost = j.tries.Attempts, fault.Costs{USD: j.tries.CostUSD, Unknown: j.tries.CostUnknown}
		j.announce(*end)
		if err := durable.Sleep(ctx, j.tries.Again.Sub(workflow.Now(ctx)), "before "+j.in.ID()+attemptOf(len(end.Attempts)+1)); err != nil {
			fail(ctx, end, err)
			return
		}
	}
	for {
		j.state.Attempt = len(end.Attempts) + 1
		started := workflow.Now(ctx)
		out, err := j.execute(ctx, resolved, *end)
		if err == nil {
			end.Status, end.Output, end.Error, end.ErrorType = spec.StatusSucceeded, out, "", ""
			return
		}
		fail(ctx, end, err)
		j.takeAccount(end)
		if end.Status == spec.StatusSkipped { // nothing was tried
			return
		}
		end.Attempts = append(end.Attempts, record.Attempt{
			StartedAt: started, EndedAt: workflow.Now(ctx), ErrorType: end.ErrorType, Error: end.Error, Interrupted: durable.WorkerLost(err),
		})
		pause, again := budget.Again(err)
		if again && kindOf(j.node).retriesItself { // begun anew, it would know nothing of what it did and cost
			again = false
		}
		if !again {
			return
		}
		j.announce(*end)
		if ctx.Err() == nil && durable.IsLong(ctx) {
			j.postponed = true
			j.tries = contract.Tries{
				Attempts: end.Attempts, Used: budget.Used, Lost: budget.Lost, Again: workflow.Now(ctx).Add(pause), CostUSD: j.cost.USD, CostUnknown: j.cost.Unknown,
			}
			return
		}
		if err := durable.Sleep(ctx, pause, "before "+j.in.ID()+attemptOf(len(end.Attempts)+1)); err != nil {
			fail(ctx, end, err)
			return
		}
	}
}

// announce shows which attempt is next, and why the previous one failed.
func (j *job) announce(end contract.StepEnd) {
	j.state.Attempt = len(end.Attempts) + 1
	j.state.Before, _, _ = strings.Cut(end.Attempts[len(end.Attempts)-1].Error, "\n")
}

// conclude evaluates the end of the job. If the verdict is hold, it waits for a person first. It also runs after a cancellation.
func (j *job) conclude(ctx workflow.Context, end contract.StepEnd) contract.StepVerdict {
	recording, _ := workflow.NewDisconnectedContext(ctx)
	end.CostUSD, end.CostUnknown, end.Unsynced = j.cost.USD, j.cost.Unknown, j.journal != nil
	for {
		end.EndedAt = workflow.Now(ctx)
		verdict, written, err := j.evaluate(ctx, recording, end)
		if end.Status == spec.StatusSucceeded && fault.TypeOf(err) == fault.Invalid {
			end.Status, end.Error, end.ErrorType = spec.StatusFailed, fault.Message(err), fault.Invalid
			continue // nothing is evaluated of a failure: its record is written
		}
		if err != nil {
			return contract.StepVerdict{Status: spec.StatusFailed, Error: fault.Message(err), ErrorType: fault.TypeOf(err)}
		}
		if verdict.Status != spec.StatusHold {
			if len(j.asked) > 0 {
				j.ahead(j.asked, verdict.Next)
			}
			if j.journal != nil {
				j.journal.add(end, written)
			}
			countStep(ctx, j.node.Kind, verdict)
			concludeStep(ctx, j.in.ID(), verdict)
			return verdict
		}
		decision, err := j.ask(ctx, *verdict.Hold)
		if err != nil {
			fail(ctx, &end, err)
			continue
		}
		decision.Check = verdict.Hold.Check
		if end.Decision != nil {
			end.Earlier = append(end.Earlier, *end.Decision)
		}
		end.Decision = &decision // of one condition; another may hold the step next
	}
}

// concludeStep shows in Temporal's UI how a step, or an instance of one, has ended.
func concludeStep(ctx workflow.Context, id string, verdict contract.StepVerdict) {
	durable.Conclude(ctx, id, string(verdict.Status), cmp.Or(verdict.Error, verdict.Summary))
}

// evaluate uses the verdict of the activity that executed the step, or calls the activity that evaluates the step and writes its record.
func (j *job) evaluate(ctx, recording workflow.Context, end contract.StepEnd) (verdict contract.StepVerdict, written bool, err error) {
	if j.verdict != nil && end.Status == spec.StatusSucceeded && end.Decision == nil {
		return *j.verdict, false, nil
	}
	if end.Status == spec.StatusSucceeded {
		end.Next = j.follow(ctx)
	}
	end.Ends = j.journal.takeUnwritten()
	err = j.journal.local(recording, contract.VerdictActivity, "evaluate the gate of "+end.ID(), end, &verdict)
	return verdict, true, err
}

// follow lists the steps to resolve together with the verdict. It returns the same steps each time.
func (j *job) follow(ctx workflow.Context) []contract.ResolveInput {
	if j.asked == nil && j.next != nil {
		j.asked = j.next(ctx)
	}
	return j.asked
}

// ask waits for a person.
func (j *job) ask(ctx workflow.Context, question contract.ApprovalInput) (record.Decision, error) {
	j.state.Status = spec.StatusHold
	j.journal.write(ctx)
	j.held(ctx, &question)
	j.show(ctx)
	var decision record.Decision
	id := contract.ApprovalWorkflowID(j.in.Run, j.in.ID())
	err := j.child(ctx, contract.ApprovalWorkflow, id, contract.TaskQueue, "wait for a decision: "+j.in.ID(), question, &decision)
	j.state.Status = spec.StatusRunning
	return decision, err
}

// approve performs an approval step. Its outputs are the fields of the form, who decided, when and why.
func (j *job) approve(ctx workflow.Context, resolved contract.Resolved, _ string) (out record.StepOutput, err error) {
	err = j.within(ctx, func(ctx workflow.Context) (err error) {
		out, err = j.approval(ctx, *resolved.Ask)
		return err
	})
	return out, err
}

// approval returns the decision of a person.
func (j *job) approval(ctx workflow.Context, question contract.ApprovalInput) (record.StepOutput, error) {
	decision, err := j.ask(ctx, question)
	if err != nil {
		return record.StepOutput{}, err
	}
	fields := decision.Fields
	if fields == nil {
		fields = map[string]any{}
	}
	fields["by"], fields["at"], fields["reason"] = decision.By, decision.At, decision.Reason
	outputs, err := json.Marshal(fields)
	if err != nil {
		return record.StepOutput{}, fault.New(fault.Invalid, "the decision cannot be recorded", err)
	}
	if !decision.Approved {
		return record.StepOutput{}, fault.WithOutputs(fault.Gate, decision.String(), outputs)
	}
	return record.StepOutput{Outputs: outputs}, nil
}

// timeout returns the limit of one attempt, if the step has one.
func (j *job) timeout() time.Duration {
	return time.Duration(cmp.Or(j.node.Timeout, spec.DefaultTimeout))
}
