package workflows

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.temporal.io/sdk/workflow"

	"github.com/sluiceml/sluice/activities/contract"
	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/fault"
	"github.com/sluiceml/sluice/store/record"
)

// answer takes what becomes of an update.
type answer struct {
	rejected error
	decision record.Decision
	err      error
}

func (a *answer) Accept()          {}
func (a *answer) Reject(err error) { a.rejected = err }
func (a *answer) Complete(success any, err error) {
	a.err = err
	if d, ok := success.(record.Decision); ok {
		a.decision = d
	}
}

func question() contract.ApprovalInput {
	limit := spec.Duration(time.Hour)
	return contract.ApprovalInput{
		Run: "r", Step: "ship", Users: []string{"user:ann", "user:bob"},
		Approval: spec.Approval{
			Message: "ship it?", Timeout: &limit, Fields: map[string]spec.Field{"share": {Type: "double", Required: true}},
		},
	}
}

func TestApprovalIsDecidedOnce(t *testing.T) {
	approve := contract.Decide{Approve: true, By: "user:ann", Reason: "fine", Fields: map[string]string{"share": "0.5"}}
	tests := []struct {
		name     string
		given    []contract.Decide // one a minute, by update
		rejected []string
		want     record.Decision
	}{{
		name: "approved", given: []contract.Decide{approve},
		rejected: []string{""},
		want:     record.Decision{Approved: true, By: "user:ann", Reason: "fine", Fields: map[string]any{"share": 0.5}},
	}, {
		name: "what is not valid changes nothing",
		given: []contract.Decide{
			{Approve: true, Fields: approve.Fields},
			{Approve: true, By: "user:eve", Fields: approve.Fields},
			{Approve: true, By: "user:ann"},
			{Approve: true, By: "user:ann", Fields: map[string]string{"share": "much"}},
			{By: "user:bob", Reason: "not now"},
		},
		rejected: []string{
			"`by` is empty: it must be the name of the user who decides", "user:eve may not decide; those who may: user:ann, user:bob",
			"share", "share", "",
		},
		want: record.Decision{By: "user:bob", Reason: "not now"},
	}}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			env := (&world{}).environment(t)
			answers := make([]answer, len(tt.given))
			for i, d := range tt.given {
				env.RegisterDelayedCallback(func() { env.UpdateWorkflow(contract.DecideUpdate, strconv.Itoa(i), &answers[i], d) }, time.Duration(i+1)*time.Minute)
			}
			env.ExecuteWorkflow(contract.ApprovalWorkflow, question())
			var got record.Decision
			if err := env.GetWorkflowResult(&got); err != nil {
				t.Fatal(err)
			}
			got.At = time.Time{}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("the decision (-want +got):\n%s", diff)
			}
			for i, want := range tt.rejected {
				if got := answers[i].rejected; (got == nil) != (want == "") || !strings.Contains(fault.Message(got), want) {
					t.Errorf("update %d was rejected with %v, want %q", i, got, want)
				}
			}
		})
	}
}

// TestSecondDecision: one that comes in when the workflow has not yet come to its end.
func TestSecondDecision(t *testing.T) {
	for want, decided := range map[string]record.Decision{
		"it has already been decided: rejected by user:bob":                                {By: "user:bob"},
		"it has already been decided: approved by user:bob: fine":                          {By: "user:bob", Approved: true, Reason: "fine"},
		"it has already been decided: rejected by default: no decision was made within 1h": {Reason: "no decision was made within 1h"},
	} {
		a := approval{state: contract.ApprovalState{ApprovalInput: question(), Decision: &decided}}
		if err := a.validate(contract.Decide{By: "user:ann"}); fault.Message(err) != want {
			t.Errorf("after %+v: %v, want %q", decided, err, want)
		}
	}
}

func TestApprovalBySignal(t *testing.T) {
	env := (&world{}).environment(t)
	signal := func(after time.Duration, d contract.Decide) {
		env.RegisterDelayedCallback(func() { env.SignalWorkflow(contract.DecideUpdate, d) }, after)
	}
	signal(time.Minute, contract.Decide{By: "user:eve"})
	signal(2*time.Minute, contract.Decide{By: "user:ann", Reason: "no"})
	env.ExecuteWorkflow(contract.ApprovalWorkflow, question())
	var got record.Decision
	if err := env.GetWorkflowResult(&got); err != nil || got.Approved || got.By != "user:ann" {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestApprovalTimesOut(t *testing.T) {
	for choice, approved := range map[string]bool{"": false, "reject": false, contract.DefaultApprove: true} {
		in := question()
		in.Approval.Default = choice
		env := (&world{}).environment(t)
		began := env.Now()
		env.ExecuteWorkflow(contract.ApprovalWorkflow, in)
		var got record.Decision
		if err := env.GetWorkflowResult(&got); err != nil {
			t.Fatal(err)
		}
		want := record.Decision{Approved: approved, Reason: "no decision was made within 1h"}
		if took := got.At.Sub(began).Round(time.Minute); took != time.Hour {
			t.Errorf("decided after %v, want an hour", took)
		}
		if got.At = (time.Time{}); !cmp.Equal(want, got) {
			t.Errorf("by default %q: %+v, want %+v", choice, got, want)
		}
	}
}

// TestHold: a gate that holds, of a step and of instances, and an approval step.
func TestHold(t *testing.T) {
	limit := spec.Duration(time.Hour)
	ask := contract.ApprovalInput{Seen: "gate", Approval: spec.Approval{Timeout: &limit}}
	tests := []struct {
		name    string
		node    spec.Node
		approve bool
		decided []string // workflow IDs of what was asked
		want    spec.Status
	}{
		{"a gate, approved", node("a"), true, []string{"a"}, spec.StatusSucceeded},
		{"a gate, rejected", node("a"), false, []string{"a"}, spec.StatusFailed},
		{"instances, approved", wide("a", spec.FanForeach), true, []string{"a.0", "a.1"}, spec.StatusSucceeded},
		{"instances, rejected", wide("a", spec.FanForeach), false, []string{"a.0", "a.1"}, spec.StatusFailed},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := &world{of: map[string]int{"a": 2}, holds: map[string]contract.ApprovalInput{"a": ask}, begun: contract.BeginOutput{Notify: []string{spec.EventHold}}}
			env := w.environment(t)
			told := 0
			env.RegisterWorkflowWithOptions(func(_ workflow.Context, in contract.NotifyInput) error {
				if told++; in.Event != spec.EventHold || !strings.HasPrefix(in.Text, "a") {
					t.Errorf("notified of %s: %s", in.Event, in.Text)
				}
				return nil
			}, workflow.RegisterOptions{Name: contract.NotifyWorkflow})
			answers := make([]answer, len(tt.decided))
			env.RegisterDelayedCallback(func() {
				for i, id := range tt.decided {
					d := contract.Decide{Approve: tt.approve, By: "ann"}
					if err := env.UpdateWorkflowByID(contract.ApprovalWorkflowID("r", id), contract.DecideUpdate, id, &answers[i], d); err != nil {
						t.Error(err)
					}
				}
			}, time.Minute)
			env.ExecuteWorkflow(contract.PipelineWorkflow, contract.RunInput{Run: "r", Name: "p", Graph: []spec.Node{tt.node}})
			for i, id := range tt.decided {
				if end := w.judged[id]; end.Decision == nil || end.Decision.By != "ann" || end.Decision.Approved != tt.approve {
					t.Errorf("%s was judged with the decision %+v (%+v)", id, end.Decision, answers[i])
				}
			}
			if w.finished.Status != tt.want {
				t.Errorf("the run ended as %+v, want %s", w.finished, tt.want)
			}
			once(t, w.started, len(tt.decided))
			if told != 1 {
				t.Errorf("%d notifications that it waits for a person, want 1", told)
			}
		})
	}
}

func TestCancelWhileHeld(t *testing.T) {
	w := &world{holds: map[string]contract.ApprovalInput{"a": {Seen: "gate"}}}
	env := w.environment(t)
	env.RegisterDelayedCallback(env.CancelWorkflow, time.Minute)
	env.ExecuteWorkflow(contract.PipelineWorkflow, contract.RunInput{Run: "r", Name: "p", Graph: []spec.Node{node("a"), in(spec.SectionFinally, node("tidy"))}})
	if a, tidy := w.judged["a"], w.judged["tidy"]; a.Status != spec.StatusCanceled || tidy.Status != spec.StatusSucceeded {
		t.Errorf("a ended as %s, tidy as %s", a.Status, tidy.Status)
	}
}

// TestApprovalDetails: what Temporal's UI shows is enough to decide there.
func TestApprovalDetails(t *testing.T) {
	in := question()
	in.Approval.Fields = map[string]spec.Field{
		"reach": {Type: "enum", Values: []string{"eu", "world"}, Default: "eu", Description: "where it goes"}, "share": {Type: "double", Required: true},
	}
	a := approval{
		state:   contract.ApprovalState{ApprovalInput: in, Until: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)},
		refused: "the field `share` (a double) must be given",
	}
	want := `**ship** of run ` + "`r`" + `: ship it?

user:ann, user:bob may decide, until 2026-01-02 03:04 UTC; then the default rejects.

Here: *More Actions*, *Send an Update*, ` + "`sluice.decide`" + `, with

` + "```json" + `
{
  "approve": true,
  "by": "YOUR NAME",
  "reason": "",
  "fields": {
    "reach": "eu|world",
    "share": "DOUBLE"
  }
}
` + "```" + `

` + "`\"approve\": false`" + ` rejects. The fields:

- ` + "`reach`" + `: eu, world (default eu): where it goes
- ` + "`share`" + `: double (required)

In a shell: ` + "`sluice approve r ship --field reach='eu|world' --field share='DOUBLE'`, or `sluice reject r ship`" + `.

A decision was rejected: the field ` + "`share`" + ` (a double) must be given`
	if diff := cmp.Diff(want, a.details()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	a = approval{state: contract.ApprovalState{ApprovalInput: question(), Decision: &record.Decision{By: "user:bob", Reason: "not now"}}}
	if got := a.details(); !strings.HasSuffix(got, "rejected by user:bob: not now") {
		t.Errorf("decided:\n%s", got)
	}
}
