package spec

//go:generate go test . -run ^TestEndsPage$ -update

import (
	"slices"

	"github.com/sluiceml/sluice/internal/fault"
)

// What of a run somebody may want to be notified of.
const (
	EventStart    = "start"
	EventHold     = "hold" // a person is waited for
	EventFail     = "fail"
	EventSuccess  = "success"
	EventRollback = "rollback"
)

// Count is what an instance counts as for the `require` of its step.
type Count string

// What an instance may count as.
const (
	CountPassed   Count = "passed"
	CountFailed   Count = "failed"
	CountCanceled Count = "canceled" // neither: the step is canceled with its run
	CountLeftOut  Count = "left out" // the step is skipped
)

// Tone is how good an end is, for those who show it in color.
type Tone int

// The tones.
const (
	ToneFaint  Tone = iota // nothing was done
	ToneGood               // what was wanted
	ToneLesser             // an end in order, but not what was wanted
	ToneBad                // a failure
)

// End is a line in the table of ends: how a step, an instance of one or a run may end, and what that means for everybody else.
type End struct {
	Status Status
	// Type is that of the error; empty for those of all types that have no line of their own.
	Type string
	// Causes is how a step comes to it, for the documentation.
	Causes string

	// Passed, NotFailed and Failed are what becomes of a step that needs this one so: pending when it runs, else its own end. One with
	// `ended` always runs.
	Passed, NotFailed, Failed Status
	// Instance is what an instance that ended so counts as.
	Instance Count
	// Run is how a run ends that has such a step and none of a higher rank.
	Run Status
	// Rank is by which of several ends a run ends, or the step of which they are instances: that of the highest.
	Rank int

	// OfRun: a run may end so, too. What follows is about those.
	OfRun bool
	// Accepted: the run becomes the pipeline's last accepted one, unless it was of some steps only.
	Accepted bool
	// HandlesFailure: the steps of on_failure run when the main steps have ended so.
	HandlesFailure bool
	// Event is what is notified; empty for none.
	Event string
	// Unbegun is how the steps end of a run that ended so without a turn of its concurrency group; empty if no such run does.
	Unbegun Status
	// Exit is the exit code.
	Exit int
	// Step and StepType are how the step ends whose child run ended so.
	Step     Status
	StepType string

	Glyph string
	Tone  Tone
}

// The ranks. A step that was canceled has none: its run knows that it was canceled.
const (
	rankNone = iota
	rankTurnedAway
	rankDeclined
	rankFailed
)

// ends is the table. A status without a line of an error's type comes last among those of the status.
var ends = []End{
	{
		Status: StatusSucceeded, Causes: "it finished its work, or an earlier result was reused, and its gate passed",
		Passed: StatusPending, NotFailed: StatusPending, Failed: StatusSkipped, Instance: CountPassed, Run: StatusSucceeded,
		OfRun: true, Accepted: true, Event: EventSuccess, Step: StatusSucceeded,
		Glyph: "✓", Tone: ToneGood,
	},
	failed(fault.Invalid, 2, "an expression, a parameter or the environment is wrong"),
	failed(fault.User, 3, "the user's program failed, or its data are missing or do not fit"),
	failed(fault.Preempted, 7, "a training lost its machines repeatedly"),
	failed(fault.Timeout, 5, "an attempt took longer than its `timeout`"),
	failed(fault.Gate, 4, "its gate failed, a person rejected it, or its rollout was rolled back"),
	failed(fault.Budget, 6, "it used up the rest of the budget, or its child run spent its own budget"),
	failed(fault.Canceled, 130, "its child run, training, rollout or approval was canceled, but not by the run"),
	failed("", 1, "a machine, disk, network or service failed, or its workflow was terminated"),
	{
		Status: StatusDeclined, Causes: "its gate stopped the run with `on_fail: stop`, or its child run was declined",
		Passed: StatusUpstream, NotFailed: StatusUpstream, Failed: StatusSkipped, Instance: CountFailed, Run: StatusDeclined, Rank: rankDeclined,
		OfRun: true, Step: StatusDeclined, StepType: fault.Gate,
		Glyph: "⊘", Tone: ToneLesser,
	},
	{
		Status: StatusSkipped, Type: fault.TurnedAway, Causes: "its child run was turned away by its concurrency group (`on_conflict: skip`)",
		Passed: StatusSkipped, NotFailed: StatusPending, Failed: StatusSkipped, Instance: CountFailed, Run: StatusSkipped, Rank: rankTurnedAway,
		OfRun: true, Unbegun: StatusSkipped, Step: StatusSkipped, StepType: fault.TurnedAway,
		Glyph: "–", Tone: ToneFaint,
	},
	{
		Status: StatusSkipped,
		Causes: "its `when` was false, its list was empty, it needs a step that was skipped, nothing failed (`on_failure`), an output that it reads is absent " +
			"(`on_failure`, `finally`), `--only` left it out and there was nothing to reuse, or its run was turned away by its concurrency group",
		Passed: StatusSkipped, NotFailed: StatusPending, Failed: StatusSkipped, Instance: CountLeftOut, Run: StatusSucceeded,
		Glyph: "–", Tone: ToneFaint,
	},
	{
		Status: StatusUpstream, Causes: "shown as `not run`: a step that it needs did not end as required, or its run failed before any step began",
		Passed: StatusUpstream, NotFailed: StatusUpstream, Failed: StatusSkipped, Instance: CountFailed, Run: StatusSucceeded,
		Glyph: "–", Tone: ToneFaint,
	},
	{
		Status: StatusCanceled, Type: fault.Budget, Causes: "the run's budget was spent before it began",
		Passed: StatusUpstream, NotFailed: StatusUpstream, Failed: StatusSkipped, Instance: CountCanceled, Run: StatusFailed,
		Glyph: "■", Tone: ToneLesser,
	},
	{
		Status: StatusCanceled, Causes: "the run was canceled, or the run stopped the step because the budget was spent",
		Passed: StatusUpstream, NotFailed: StatusUpstream, Failed: StatusSkipped, Instance: CountCanceled, Run: StatusCanceled,
		OfRun: true, HandlesFailure: true, Unbegun: StatusCanceled, Exit: 130, Step: StatusFailed, StepType: fault.Canceled,
		Glyph: "■", Tone: ToneLesser,
	},
}

// failed is the line of a failure of a type; that of the empty type is of infrastructure and of what has no type.
func failed(typ string, exit int, causes string) End {
	e := End{
		Status: StatusFailed, Type: typ, Causes: causes,
		Passed: StatusUpstream, NotFailed: StatusUpstream, Failed: StatusPending, Instance: CountFailed, Run: StatusFailed, Rank: rankFailed,
		OfRun: true, HandlesFailure: true, Event: EventFail, Unbegun: StatusUpstream, Exit: exit, Step: StatusFailed, StepType: typ,
		Glyph: "✗", Tone: ToneBad,
	}
	if typ == "" {
		e.StepType = fault.Infrastructure
	}
	return e
}

// EndOf is the line of a step that ended with an error of a type, or without one. A status that is no end, such as running, has none.
func EndOf(status Status, errType string) (end End, isEnd bool) {
	for _, e := range ends {
		if e.Status == status && (e.Type == errType || e.Type == "") {
			return e, true
		}
	}
	return End{}, false
}

// EndOfRun is the line of a run. A run is only ever skipped because it was turned away.
func EndOfRun(status Status, errType string) End {
	if status == StatusSkipped {
		errType = fault.TurnedAway
	}
	end, _ := EndOf(status, errType)
	return end
}

// StepEnds are the statuses in which steps end, RunEnds those in which runs do.
func StepEnds() []Status { return statuses(func(End) bool { return true }) }

// RunEnds is described at StepEnds.
func RunEnds() []Status { return statuses(func(e End) bool { return e.OfRun }) }

func statuses(of func(End) bool) (all []Status) {
	for _, e := range ends {
		if of(e) && !slices.Contains(all, e.Status) {
			all = append(all, e.Status)
		}
	}
	return all
}

// IsEnd reports whether a step or a run with the status has ended.
func (s Status) IsEnd() bool {
	_, isEnd := EndOf(s, "")
	return isEnd
}

// IsIdle reports whether a step with the status has done nothing: what it took says nothing.
func (s Status) IsIdle() bool {
	end, isEnd := EndOf(s, "")
	return !isEnd && s != StatusRunning && s != StatusHold || isEnd && end.Tone == ToneFaint
}

// Met says what the end of the step that is needed makes of the one that needs it: pending when it may run, else how it ends without
// running, skipped or upstream. An end that is forgiven, since its step has continue_on_error, counts as skipped, except for who waits for
// its failure.
func (n Need) Met(status Status, forgiven bool) Status {
	if end, _ := EndOf(status, ""); forgiven && end.Rank > rankNone && n != NeedFailed {
		status = StatusSkipped
	}
	end, _ := EndOf(status, "")
	switch n {
	case NeedEnded:
		return StatusPending
	case NeedNotFailed:
		return end.NotFailed
	case NeedFailed:
		return end.Failed
	case NeedPassed:
	}
	return end.Passed
}
